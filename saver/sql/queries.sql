-- name: limits
-- Nothing holds a lock for long: a frozen process loses its transaction, so its locks never outlive the time-out.
select set_config('statement_timeout', %(statement_ms)s::text, true),
       set_config('idle_in_transaction_session_timeout', %(idle_ms)s::text, true),
       set_config('lock_timeout', %(statement_ms)s::text, true);

-- name: lock_shared
-- LOAD holds this while it reads, so that nobody changes the rows between its statements.
select pg_advisory_xact_lock_shared(hashtextextended(%(thread_id)s, 0));

-- name: lock_exclusive
select pg_advisory_xact_lock(hashtextextended(%(thread_id)s, 0));

-- name: lock_exclusive_pair
-- In the order of the keys, so that two copies in opposite directions cannot wait for each other.
select pg_advisory_xact_lock(key)
  from (select hashtextextended(thread_id, 0) as key
          from unnest(%(thread_ids)s::text[]) as thread_id
         order by 1) as keys;

-- name: lock_free
-- Which of these threads nobody else moves right now; those are ours until the transaction ends. Nobody waits: a thread
-- that another process holds is left to it.
select thread_id
  from unnest(%(thread_ids)s::text[]) as thread_id
 where pg_try_advisory_xact_lock(hashtextextended(thread_id, 0));

-- name: tier_rows
select thread_id, incarnation, position
  from {schema}.tier_threads
 where thread_id = any(%(thread_ids)s::text[]);

-- name: tier_position
-- Write-through asks this: is the row I put in Postgres by now?
select incarnation, position
  from {schema}.tier_threads
 where thread_id = %(thread_id)s;

-- fragment: rows_of_head
-- The checkpoints of `head` with all their blobs and writes, as rows of one shape and one snapshot.
{checkpoints_of_head}
union all
select 'w', write.thread_id, write.checkpoint_ns, write.checkpoint_id, write.task_id, write.task_path, write.channel,
       write.type, write.idx, write.blob
  from head
  join {schema}.checkpoint_writes as write
    on write.thread_id = head.thread_id
   and write.checkpoint_ns = head.checkpoint_ns
   and write.checkpoint_id = head.checkpoint_id;

-- fragment: checkpoints_of_head
-- The limit of one row per key keeps the planner from reading the table of blobs as a whole.
select 'c' as kind, thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id as a, checkpoint::text as b,
       metadata::text as c, null::text as d, 0 as idx, null::bytea as data
  from head
union all
select 'b', blob.thread_id, blob.checkpoint_ns, '', blob.channel, blob.version, blob.type, null, 0, blob.blob
  from (select distinct head.thread_id, head.checkpoint_ns, channel.key, channel.value
          from head
         cross join lateral jsonb_each_text(head.checkpoint -> 'channel_versions') as channel) as used
 cross join lateral (select *
                       from {schema}.checkpoint_blobs as stored
                      where stored.thread_id = used.thread_id
                        and stored.checkpoint_ns = used.checkpoint_ns
                        and stored.channel = used.key
                        and stored.version = used.value
                      limit 1) as blob;

-- name: read_newest
with head as materialized (
    select thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata
      from {schema}.checkpoints
     where thread_id = %(thread_id)s
       and checkpoint_ns = %(namespace)s
     order by checkpoint_id desc
     limit %(limit)s)
{rows_of_head};

-- name: load
-- What LOAD brings, of one snapshot: a new incarnation number (i), the other namespaces that cold knows of, also those
-- with writes alone (n), the newest checkpoints with their blobs, and the writes from the oldest of these on, also of
-- checkpoints that are not stored yet. Fewer checkpoints than the limit are all there are.
with head as materialized (
    select thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata
      from {schema}.checkpoints
     where thread_id = %(thread_id)s
       and checkpoint_ns = %(namespace)s
     order by checkpoint_id desc
     limit %(limit)s),
     floor as materialized (
    select case when count(*) = %(limit)s then min(checkpoint_id) else '' end as checkpoint_id
      from head)
{checkpoints_of_head}
union all
select 'w', thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, channel, type, idx, blob
  from {schema}.checkpoint_writes
 where thread_id = %(thread_id)s
   and checkpoint_ns = %(namespace)s
   and checkpoint_id >= (select checkpoint_id from floor)
union all
select 'n', %(thread_id)s, checkpoint_ns, '', null, null, null, null, 0, null
  from (select checkpoint_ns
          from {schema}.checkpoints
         where thread_id = %(thread_id)s
         union
        select checkpoint_ns
          from {schema}.checkpoint_writes
         where thread_id = %(thread_id)s) as known
 where checkpoint_ns <> %(namespace)s
union all
select 'i', %(thread_id)s, '', '', nextval('{schema}.tier_incarnation')::text, null, null, null, 0, null;

-- fragment: writes_of_one
select 'w', thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, channel, type, idx, blob
  from {schema}.checkpoint_writes
 where thread_id = %(thread_id)s
   and checkpoint_ns = %(namespace)s
   and checkpoint_id = %(checkpoint_id)s;

-- name: read_writes
{writes_of_one};

-- name: read_one
-- With its writes, which may be here before it is.
with head as materialized (
    select thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata
      from {schema}.checkpoints
     where thread_id = %(thread_id)s
       and checkpoint_ns = %(namespace)s
       and checkpoint_id = %(checkpoint_id)s)
{checkpoints_of_head}
union all
{writes_of_one};

-- name: read_page
-- A page of the listing, newest first. A parameter that is null does not filter. Of what hot has too everything is read:
-- there it may have other metadata by now, and here its writes may be before it is. Ties are broken by bytes, as the
-- listing itself does, whatever the collation of the database.
with in_hot as materialized (
    select *
      from unnest(%(threads_in_hot)s::text[], %(namespaces_in_hot)s::text[], %(ids_in_hot)s::text[])
           as one (thread_id, checkpoint_ns, checkpoint_id)),
head as materialized (
    select thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata
      from {schema}.checkpoints
     where (%(thread_id)s::text is null or thread_id = %(thread_id)s)
       and (%(namespace)s::text is null or checkpoint_ns = %(namespace)s)
       and (%(checkpoint_id)s::text is null or checkpoint_id = %(checkpoint_id)s)
       and (%(before)s::text is null or checkpoint_id < %(before)s)
       and (%(after)s::text[] is null
            or (checkpoint_id, thread_id collate "C", checkpoint_ns collate "C")
             < ((%(after)s::text[])[1], (%(after)s::text[])[2], (%(after)s::text[])[3]))
       and (%(filter)s::jsonb is null
            or metadata @> %(filter)s::jsonb
            or (thread_id, checkpoint_ns, checkpoint_id) in (select * from in_hot))
     order by checkpoint_id desc, thread_id collate "C" desc, checkpoint_ns collate "C" desc
     limit %(limit)s),
written as (
    select thread_id, checkpoint_ns, checkpoint_id
      from head
     union
    select *
      from in_hot)
{checkpoints_of_head}
union all
select 'w', write.thread_id, write.checkpoint_ns, write.checkpoint_id, write.task_id, write.task_path, write.channel,
       write.type, write.idx, write.blob
  from written
  join {schema}.checkpoint_writes as write
    on write.thread_id = written.thread_id
   and write.checkpoint_ns = written.checkpoint_ns
   and write.checkpoint_id = written.checkpoint_id;

-- name: upsert_blobs
-- A version of a channel never changes: the first value stays.
insert into {schema}.checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
select * from unnest(%(thread_ids)s::text[], %(namespaces)s::text[], %(channels)s::text[], %(versions)s::text[],
                     %(types)s::text[], %(data)s::bytea[])
    on conflict do nothing;

-- name: upsert_checkpoints
-- One that is there already is not written again. As text: to JSONB 1 and 1.0 are equal.
insert into {schema}.checkpoints as old
       (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
select thread_id, checkpoint_ns, checkpoint_id, parent_id, checkpoint::jsonb, metadata::jsonb
  from unnest(%(thread_ids)s::text[], %(namespaces)s::text[], %(checkpoint_ids)s::text[], %(parent_ids)s::text[],
              %(checkpoints)s::text[], %(metadata)s::text[])
       as new (thread_id, checkpoint_ns, checkpoint_id, parent_id, checkpoint, metadata)
    on conflict (thread_id, checkpoint_ns, checkpoint_id) do update
   set parent_checkpoint_id = excluded.parent_checkpoint_id,
       checkpoint = excluded.checkpoint,
       metadata = excluded.metadata
 where (old.parent_checkpoint_id, old.checkpoint::text, old.metadata::text)
       is distinct from (excluded.parent_checkpoint_id, excluded.checkpoint::text, excluded.metadata::text);

-- name: upsert_writes
-- Ordinary writes keep their first value, special ones (a negative index) take the last.
insert into {schema}.checkpoint_writes as old
       (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, type, blob)
select * from unnest(%(thread_ids)s::text[], %(namespaces)s::text[], %(checkpoint_ids)s::text[], %(task_ids)s::text[],
                     %(indexes)s::int[], %(task_paths)s::text[], %(channels)s::text[], %(types)s::text[],
                     %(data)s::bytea[])
    on conflict (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) do update
   set channel = excluded.channel,
       type = excluded.type,
       blob = excluded.blob,
       task_path = excluded.task_path
 where old.idx < 0;

-- name: there_blobs
-- Which of these blobs are stored.
select blob.thread_id, blob.checkpoint_ns, blob.channel, blob.version
  from unnest(%(thread_ids)s::text[], %(namespaces)s::text[], %(channels)s::text[], %(versions)s::text[])
       as asked (thread_id, checkpoint_ns, channel, version)
  join {schema}.checkpoint_blobs as blob
 using (thread_id, checkpoint_ns, channel, version);

-- name: there_writes
select write.thread_id, write.checkpoint_ns, write.checkpoint_id, write.task_id, write.idx
  from unnest(%(thread_ids)s::text[], %(namespaces)s::text[], %(checkpoint_ids)s::text[], %(task_ids)s::text[],
              %(indexes)s::int[])
       as asked (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
  join {schema}.checkpoint_writes as write
 using (thread_id, checkpoint_ns, checkpoint_id, task_id, idx);

-- name: copy_blobs
copy {schema}.checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
from stdin (format binary);

-- name: copy_writes
copy {schema}.checkpoint_writes
     (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, type, blob)
from stdin (format binary);

-- name: copy_checkpoints
copy {schema}.checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
from stdin (format binary);

-- name: upsert_tier_rows
-- An older incarnation never overtakes a newer one, and a position never goes back within one.
insert into {schema}.tier_threads as old (thread_id, incarnation, position, last_activity, head)
select thread_id, incarnation, position, now(), head
  from unnest(%(thread_ids)s::text[], %(incarnations)s::bigint[], %(positions)s::bigint[], %(heads)s::text[])
       as new (thread_id, incarnation, position, head)
    on conflict (thread_id) do update
   set incarnation = greatest(old.incarnation, excluded.incarnation),
       position = case
                      when excluded.incarnation > old.incarnation then excluded.position
                      when excluded.incarnation = old.incarnation then greatest(old.position, excluded.position)
                      else old.position
                  end,
       last_activity = excluded.last_activity,
       head = greatest(old.head, excluded.head);

-- name: delete_checkpoints
delete from {schema}.checkpoints where thread_id = any(%(thread_ids)s::text[]);

-- name: delete_blobs
delete from {schema}.checkpoint_blobs where thread_id = any(%(thread_ids)s::text[]);

-- name: delete_writes
delete from {schema}.checkpoint_writes where thread_id = any(%(thread_ids)s::text[]);

-- name: bury
-- What stays of a deleted thread: no content, and the incarnation below which everything is a ghost.
update {schema}.tier_threads
   set last_activity = null,
       head = null
 where thread_id = any(%(thread_ids)s::text[]);

-- name: entomb
-- A thread that vanishes leaves a tombstone too when it is deleted, though Postgres never knew it: it tells a copy that a
-- failover of Redis brings back from a new thread.
insert into {schema}.tier_threads (thread_id, incarnation, position)
values (%(thread_id)s, nextval('{schema}.tier_incarnation'), 0)
    on conflict (thread_id) do update
   set incarnation = excluded.incarnation,
       position = excluded.position;

-- name: cold_has
select exists (select 1 from {schema}.checkpoints where thread_id = %(thread_id)s);

-- name: count_cold
-- An estimate once the table is large: an exact count would read it all.
select case
           when reltuples > 100000 then reltuples::bigint
           else (select count(*) from {schema}.tier_threads where last_activity is not null)
       end
  from pg_class
 where oid = '{schema}.tier_threads'::regclass;

-- name: process
-- The server process that serves this connection, by its own word. A pooler tells its clients another one.
select pg_backend_pid();

-- name: answers
select 1;
