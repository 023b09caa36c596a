-- name: namespaces_of
-- What cold has of these threads. One that is not named is not there.
select distinct thread_id, checkpoint_ns
  from {schema}.checkpoints
 where thread_id = any(%(thread_ids)s::text[]);
