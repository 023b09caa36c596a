-- What the tiers must remember of a thread beside its rows. A row without last_activity is the tombstone of a deleted
-- thread: it holds no content and tells a ghost of a Redis failover from a new thread.
create sequence {schema}.tier_incarnation;

create table {schema}.tier_threads (
    thread_id text primary key,
    incarnation bigint not null,
    position bigint not null,
    last_activity timestamptz,
    head text
);

create index tier_threads_last_activity
    on {schema}.tier_threads (last_activity)
 where last_activity is not null;
