"""door.py PORT BEHIND: hands every connection to PORT of this machine on to BEHIND. Killed, nobody is answered any more."""

import asyncio
import sys

port, behind = map(int, sys.argv[1:])


async def carry(one: asyncio.StreamReader, other: asyncio.StreamWriter) -> None:
    try:
        while data := await one.read(1 << 16):
            other.write(data)
            await other.drain()
    except ConnectionError:
        pass
    finally:
        other.close()


async def admit(guest: asyncio.StreamReader, to_guest: asyncio.StreamWriter) -> None:
    server, to_server = await asyncio.open_connection("127.0.0.1", behind)
    await asyncio.gather(carry(guest, to_server), carry(server, to_guest))


async def main() -> None:
    door = await asyncio.start_server(admit, "127.0.0.1", port)
    async with door:
        await door.serve_forever()


asyncio.run(main())
