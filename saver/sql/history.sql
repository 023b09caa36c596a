-- name: read_history
-- From one checkpoint up its parents, until each channel has found an ancestor that stores its value. `wanted` are the
-- channels still looked for; the target's own values do not count.
with recursive chain (checkpoint_id, parent_id, checkpoint, wanted, is_target) as (
    select checkpoint_id, parent_checkpoint_id, checkpoint, %(channels)s::text[], %(is_target)s::bool
      from {schema}.checkpoints
     where thread_id = %(thread_id)s
       and checkpoint_ns = %(namespace)s
       and checkpoint_id = coalesce(%(checkpoint_id)s,
                                    (select max(checkpoint_id)
                                       from {schema}.checkpoints
                                      where thread_id = %(thread_id)s
                                        and checkpoint_ns = %(namespace)s))
     union
    select parent.checkpoint_id, parent.parent_checkpoint_id, parent.checkpoint, step.wanted, false
      from chain
     cross join lateral (
               select array(select name
                              from unnest(chain.wanted) as name
                             where chain.is_target
                                or not (chain.checkpoint -> 'channel_values' ? name
                                        or exists (select 1
                                                     from {schema}.checkpoint_blobs as blob
                                                    where blob.thread_id = %(thread_id)s
                                                      and blob.checkpoint_ns = %(namespace)s
                                                      and blob.channel = name
                                                      and blob.version
                                                        = chain.checkpoint -> 'channel_versions' ->> name
                                                      and blob.type <> 'empty'))) as wanted) as step
      join {schema}.checkpoints as parent
        on parent.thread_id = %(thread_id)s
       and parent.checkpoint_ns = %(namespace)s
       and parent.checkpoint_id = chain.parent_id
     where cardinality(step.wanted) > 0)
select 'c' as kind, %(thread_id)s::text, %(namespace)s::text, checkpoint_id, parent_id as a,
       jsonb_build_object(
           'channel_versions',
           (select jsonb_object_agg(key, value)
              from jsonb_each(checkpoint -> 'channel_versions')
             where key = any(%(channels)s::text[])),
           'channel_values',
           (select jsonb_object_agg(key, value)
              from jsonb_each(checkpoint -> 'channel_values')
             where key = any(%(channels)s::text[])))::text as b,
       '{}' as c, null::text as d, 0 as idx, null::bytea as data
  from chain
union all
select 'b', blob.thread_id, blob.checkpoint_ns, '', blob.channel, blob.version, blob.type, null, 0, blob.blob
  from chain
 cross join lateral unnest(chain.wanted) as name
  join {schema}.checkpoint_blobs as blob
    on blob.thread_id = %(thread_id)s
   and blob.checkpoint_ns = %(namespace)s
   and blob.channel = name
   and blob.version = chain.checkpoint -> 'channel_versions' ->> name
 where not chain.is_target
union all
select 'w', write.thread_id, write.checkpoint_ns, write.checkpoint_id, write.task_id, write.task_path, write.channel,
       write.type, write.idx, write.blob
  from chain
  join {schema}.checkpoint_writes as write
    on write.thread_id = %(thread_id)s
   and write.checkpoint_ns = %(namespace)s
   and write.checkpoint_id = chain.checkpoint_id
   and write.channel = any(chain.wanted)
 where not chain.is_target
union all
-- Those of the first one when it is in hot alone: writes may be here before their checkpoint is.
select 'w', thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, channel, type, idx, blob
  from {schema}.checkpoint_writes
 where thread_id = %(thread_id)s
   and checkpoint_ns = %(namespace)s
   and checkpoint_id = %(checkpoint_id)s
   and channel = any(%(channels)s::text[])
   and not exists (select 1 from chain);

-- name: read_parent
-- Whether a checkpoint is there, and some blobs of its namespace.
select 'c' as kind, thread_id, checkpoint_ns, checkpoint_id, null::text as a, '{}' as b, '{}' as c, null::text as d,
       0 as idx, null::bytea as data
  from {schema}.checkpoints
 where thread_id = %(thread_id)s
   and checkpoint_ns = %(namespace)s
   and checkpoint_id = %(checkpoint_id)s
union all
select 'b', thread_id, checkpoint_ns, '', channel, version, type, null, 0, blob
  from {schema}.checkpoint_blobs
 where thread_id = %(thread_id)s
   and checkpoint_ns = %(namespace)s
   and (channel, version) in (select * from unnest(%(channels)s::text[], %(versions)s::text[]));
