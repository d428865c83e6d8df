"""Home timelines: the newest posts of everybody one follows, kept ready for each reader."""

import riverrun as rr

POSTS = rr.TopicSpec("posts", "post string, author string, text string, at timestamp", key="post", compact=True)
FOLLOWS = rr.TopicSpec("follows", "follower string, author string", key=["follower", "author"], compact=True)
LENGTH = 10

flow = rr.Flow("timelines")
posts = flow.table(POSTS)  # a post again is an edit, a tombstone deletes it
follows = flow.table(FOLLOWS)  # a tombstone unfollows

home = follows.join(posts, on="author")
flow.view("timelines", home.top(LENGTH, "at desc, post desc", per="follower", rank="place"))

followers = follows.group("author").agg(followers=rr.count())
written = posts.group("author").agg(posts=rr.count(), newest=rr.max("at"))
flow.view("authors", written.join(followers, on="author", how="full"))
