"""What is done inside Redis, each as one step that nobody comes between. Every script first looks whether the marker is the
one that was decided on; where it is another one it does nothing and returns 0.

Redis rolls nothing back: a script that fails halfway keeps what it wrote. So each row is written whole, whatever was there,
and the marker last: the same script again makes it right.
"""

from __future__ import annotations

_EXPECTED = "if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end\n"

# ARGV: the marker that is there, the one to write, and parts in MessagePack:
# prefix, names of fields, milliseconds to live or 0, keys that are gone, rows as key and values.
WRITE = (
    _EXPECTED
    + """
for _, part in ipairs(cmsgpack.unpack(ARGV[3])) do
  local prefix, names, ttl, gone, rows = part[1], part[2], part[3], part[4], part[5]
  local width = #names
  for _, key in ipairs(gone) do redis.call('DEL', prefix .. key) end
  for _, row in ipairs(rows) do
    local key, fields, used = prefix .. row[1], {}, 0
    for i = 1, width do
      local value = row[i + 1]
      if value ~= nil then
        fields[used + 1] = names[i]
        fields[used + 2] = value
        used = used + 2
      end
    end
    if used == 0 then fields = {'', ''} end
    redis.call('DEL', key)
    redis.call('HSET', key, unpack(fields))
    if ttl > 0 then redis.call('PEXPIRE', key, ttl) end
  end
end
redis.call('SET', KEYS[1], ARGV[2])
return 1
"""
)

# ARGV: the marker that is there, the prefixes of running and of staged rows, then keys behind the prefix.
CLEAR = (
    _EXPECTED
    + """
for i = 4, #ARGV do
  local key = ARGV[i]
  if redis.call('EXISTS', ARGV[3] .. key) == 0 then redis.call('DEL', ARGV[2] .. key) end
end
return 1
"""
)

RENAME = (
    _EXPECTED
    + """
for i = 4, #ARGV do
  local key = ARGV[i]
  if redis.call('EXISTS', ARGV[3] .. key) == 1 then redis.call('RENAME', ARGV[3] .. key, ARGV[2] .. key) end
end
return 1
"""
)
