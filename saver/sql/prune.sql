-- fragment: kept_by_heads
-- What the checkpoints of `head` are read from: themselves, the parent that keeps the sends of a format before 4, and
-- for each delta channel the ancestors back to one that stores its value.
delta as materialized (
    select distinct checkpoint_ns, channel
      from {schema}.checkpoints
     cross join lateral jsonb_object_keys(
               case
                   when jsonb_typeof(metadata -> 'counters_since_delta_snapshot') = 'object'
                   then metadata -> 'counters_since_delta_snapshot'
               end) as channel
     where thread_id = %(thread_id)s),
walk (checkpoint_ns, checkpoint_id, channel) as (
    select checkpoint_ns, checkpoint_id, channel
      from head
      join delta using (checkpoint_ns)
     union
    select walk.checkpoint_ns, child.parent_checkpoint_id, walk.channel
      from walk
      join {schema}.checkpoints as child
        on child.thread_id = %(thread_id)s
       and child.checkpoint_ns = walk.checkpoint_ns
       and child.checkpoint_id = walk.checkpoint_id
     where child.parent_checkpoint_id is not null
       and child.checkpoint -> 'channel_versions' ? walk.channel
       and coalesce(jsonb_typeof(child.checkpoint -> 'channel_values' -> walk.channel), 'null') = 'null'
       and not exists (select 1
                         from {schema}.checkpoint_blobs as blob
                        where blob.thread_id = %(thread_id)s
                          and blob.checkpoint_ns = walk.checkpoint_ns
                          and blob.channel = walk.channel
                          and blob.version = child.checkpoint -> 'channel_versions' ->> walk.channel
                          and blob.type <> 'empty')),
kept as materialized (
    select checkpoint_ns, checkpoint_id
      from head
     union
    select checkpoint_ns, checkpoint_id
      from walk
     union
    select old.checkpoint_ns, old.parent_checkpoint_id
      from head
      join {schema}.checkpoints as old
        on old.thread_id = %(thread_id)s
       and old.checkpoint_ns = head.checkpoint_ns
       and old.checkpoint_id = head.checkpoint_id
     where (old.checkpoint ->> 'v')::int < 4
       and exists (select 1
                     from {schema}.checkpoint_writes as send
                    where send.thread_id = %(thread_id)s
                      and send.checkpoint_ns = old.checkpoint_ns
                      and send.checkpoint_id = old.parent_checkpoint_id
                      and send.channel = '__pregel_tasks'))

-- name: outlived
-- The checkpoints of a thread that its newest ones do without. The namespace of a subgraph call, which has a task id
-- after a colon, goes with the root checkpoint that the call started from, once that one is stored. LangGraph.js does
-- not tell which channels are deltas: such a thread keeps everything.
with recursive ranked as materialized (
    select checkpoint_ns, checkpoint_id,
           row_number() over (partition by checkpoint_ns order by checkpoint_id desc) as place
      from {schema}.checkpoints
     where thread_id = %(thread_id)s),
head as materialized (
    select checkpoint_ns, checkpoint_id
      from ranked
     where place <= %(keep)s),
{kept_by_heads},
ended as materialized (
    select call.checkpoint_ns
      from ranked
      join {schema}.checkpoints as call
        on call.thread_id = %(thread_id)s
       and call.checkpoint_ns = ranked.checkpoint_ns
       and call.checkpoint_id = ranked.checkpoint_id
      join {schema}.checkpoints as root
        on root.thread_id = %(thread_id)s
       and root.checkpoint_ns = ''
       and root.checkpoint_id = call.metadata -> 'parents' ->> ''
     where ranked.place = 1
       and strpos(call.checkpoint_ns, ':') > 0
       and root.checkpoint_id not in (select checkpoint_id from kept where checkpoint_ns = ''))
select checkpoint_ns, checkpoint_id
  from ranked
 where ((checkpoint_ns, checkpoint_id) not in (select checkpoint_ns, checkpoint_id from kept)
        or checkpoint_ns in (select checkpoint_ns from ended))
   and not exists (select 1
                     from {schema}.checkpoints
                    where thread_id = %(thread_id)s
                      and metadata ? 'delta_writes_versioned');

-- name: of_runs
-- The checkpoints that some runs made, except those that the others are rebuilt from.
with recursive head as materialized (
    select checkpoint_ns, checkpoint_id
      from {schema}.checkpoints
     where thread_id = %(thread_id)s
       and (metadata ->> 'run_id' = any(%(run_ids)s::text[])) is not true),
{kept_by_heads}
select checkpoint_ns, checkpoint_id
  from {schema}.checkpoints
 where thread_id = %(thread_id)s
   and (checkpoint_ns, checkpoint_id) not in (select checkpoint_ns, checkpoint_id from kept);

-- name: count_of_runs
select count(*)
  from {schema}.checkpoints
 where thread_id = %(thread_id)s
   and metadata ->> 'run_id' = any(%(run_ids)s::text[]);

-- name: threads_of_runs
-- By the index checkpoints_run_id; without it this reads the whole table.
select distinct thread_id
  from {schema}.checkpoints
 where metadata ->> 'run_id' = any(%(run_ids)s::text[]);

-- name: forget_writes
-- Only of the checkpoints that go: writes may be stored before their checkpoint is.
delete from {schema}.checkpoint_writes
 where thread_id = %(thread_id)s
   and (checkpoint_ns, checkpoint_id) in (select *
                                            from unnest(%(namespaces)s::text[], %(checkpoint_ids)s::text[]));

-- name: forget_blobs
-- The blobs that the checkpoints which go refer to, and no other does. Comes before `forget_checkpoints`.
with gone as materialized (
    select *
      from unnest(%(namespaces)s::text[], %(checkpoint_ids)s::text[]) as one (checkpoint_ns, checkpoint_id)),
unused as materialized (
    select checkpoint_ns, used.key as channel, used.value as version
      from {schema}.checkpoints
     cross join lateral jsonb_each_text(checkpoint -> 'channel_versions') as used
     where thread_id = %(thread_id)s
     group by checkpoint_ns, used.key, used.value
    having bool_and((checkpoint_ns, checkpoint_id) in (select checkpoint_ns, checkpoint_id from gone)))
delete from {schema}.checkpoint_blobs as blob
 using unused
 where blob.thread_id = %(thread_id)s
   and blob.checkpoint_ns = unused.checkpoint_ns
   and blob.channel = unused.channel
   and blob.version = unused.version;

-- name: forget_checkpoints
delete from {schema}.checkpoints
 where thread_id = %(thread_id)s
   and (checkpoint_ns, checkpoint_id) in (select *
                                            from unnest(%(namespaces)s::text[], %(checkpoint_ids)s::text[]));

-- name: forget_parents
-- What stays has no parent rather than one that is gone, as the stock saver leaves it.
update {schema}.checkpoints
   set parent_checkpoint_id = null
 where thread_id = %(thread_id)s
   and (checkpoint_ns, parent_checkpoint_id) in (select *
                                                   from unnest(%(namespaces)s::text[], %(checkpoint_ids)s::text[]));

-- name: settle
-- After checkpoints were deleted: a thread that has none is a tombstone.
update {schema}.tier_threads
   set head = (select max(checkpoint_id)
                 from {schema}.checkpoints
                where thread_id = %(thread_id)s
                  and checkpoint_ns = ''),
       last_activity = case
                           when exists (select 1 from {schema}.checkpoints where thread_id = %(thread_id)s)
                           then last_activity
                       end
 where thread_id = %(thread_id)s;
