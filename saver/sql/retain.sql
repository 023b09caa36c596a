-- fragment: moment_of_checkpoint
-- When a checkpoint was made, by its own word. One that is no moment counts as now: rather too young than deleted.
case
    when checkpoint.checkpoint ->> 'ts' ~ '^\d{4}-[01]\d-[0-3]\d[T ][0-2]\d:[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)?$'
    then (checkpoint.checkpoint ->> 'ts')::timestamptz
    else now()
end

-- name: lock_retention
-- One run at a time, whoever started it. Two would do no harm, only the same work.
select pg_try_advisory_xact_lock(7135021, hashtext(%(schema)s));

-- name: adopt
-- Give threads that the stock saver wrote a tier row, so that retention sees them. Their age is that of their newest
-- checkpoint. A walk over the thread ids, by index: a page costs the same however large the table is.
with recursive walk as (
    (select first.thread_id
       from {schema}.checkpoints as first
      where first.thread_id > %(after)s
      order by first.thread_id
      limit 1)
     union all
    select (select next.thread_id
              from {schema}.checkpoints as next
             where next.thread_id > walk.thread_id
             order by next.thread_id
             limit 1)
      from walk
     where walk.thread_id is not null),
page as materialized (
    select thread_id
      from walk
     where thread_id is not null
     limit %(limit)s),
adopted as (
    insert into {schema}.tier_threads as old (thread_id, incarnation, position, last_activity, head)
    select page.thread_id, 0, 0, newest.moment, newest.head
      from page
     cross join lateral (select max({moment_of_checkpoint}) as moment, max(checkpoint.checkpoint_id) as head
                           from {schema}.checkpoints as checkpoint
                          where checkpoint.thread_id = page.thread_id) as newest
     where not exists (select 1
                         from {schema}.tier_threads as known
                        where known.thread_id = page.thread_id
                          and known.last_activity is not null)
        on conflict (thread_id) do update
       set last_activity = excluded.last_activity,
           head = excluded.head
     where old.last_activity is null
    returning thread_id, head),
labelled as (
    insert into {schema}.tier_labels (thread_id, metadata)
    select adopted.thread_id, newest.metadata - {step_keys}
      from adopted
      join {schema}.checkpoints as newest
        on newest.thread_id = adopted.thread_id
       and newest.checkpoint_ns = ''
       and newest.checkpoint_id = adopted.head
        on conflict (thread_id) do update
       set metadata = excluded.metadata)
select (select max(thread_id) from page), (select count(*) from page), (select count(*) from adopted);

-- name: idle_since
-- Threads that nobody wrote for a time, longest first, from a place in that order on: a run that is cut short did the
-- most urgent part, and threads that stay do not hold up those behind them.
select thread_id, last_activity::text
  from {schema}.tier_threads
 where last_activity < now() - make_interval(secs => %(age)s)
   and (last_activity, thread_id) > (%(moment)s::timestamptz, %(after)s::text)
 order by last_activity, thread_id
 limit %(limit)s;

-- name: wishing
-- Threads with a wish of their own, by id.
select label.thread_id
  from {schema}.tier_labels as label
 where label.metadata ?| '{tier_retain_for,tier_keep_checkpoints}'::text[]
   and label.thread_id > %(after)s
 order by label.thread_id
 limit %(limit)s;

-- name: any_shortening
select exists (select 1
                 from {schema}.tier_policies
                where wishes ? 'tier_keep_checkpoints')
    or exists (select 1
                 from {schema}.tier_labels
                where metadata ?| '{tier_retain_for,tier_keep_checkpoints}'::text[]
                  and metadata ? 'tier_keep_checkpoints');

-- name: overlong
-- A page of all threads by id: where it ends, how many it has, and which of them may have too many checkpoints: those that
-- were written since they were shortened last, or were shortened to another number.
with page as materialized (
    select thread_id
      from {schema}.tier_threads
     where thread_id > %(after)s
     order by thread_id
     limit %(limit)s)
select (select max(thread_id) from page),
       (select count(*) from page),
       array(select known.thread_id
               from page
               join {schema}.tier_threads as known
                 on known.thread_id = page.thread_id
               left join {schema}.tier_labels as label
                 on label.thread_id = page.thread_id
              where known.last_activity is not null
                and (known.shortened_at is distinct from known.last_activity
                     or known.shortened_to is distinct from %(keep)s::int)
                and (%(keep)s::int is not null
                     or label.metadata ? 'tier_keep_checkpoints'
                     or exists (select 1
                                  from {schema}.tier_policies as policy
                                 where policy.wishes ? 'tier_keep_checkpoints'
                                   and (policy.thread_id = known.thread_id or label.metadata @> policy.metadata)))
              order by known.thread_id);

-- name: told_of
-- What decides about these threads: seconds since they were written, by us or by the stock saver, and all wishes. Asked
-- under their locks: an archiver may have written meanwhile.
select known.thread_id,
       extract(epoch from now() - greatest(known.last_activity,
                                           (select {moment_of_checkpoint}
                                              from {schema}.checkpoints as checkpoint
                                             where checkpoint.thread_id = known.thread_id
                                               and checkpoint.checkpoint_ns = ''
                                             order by checkpoint.checkpoint_id desc
                                             limit 1)))::float8,
       coalesce(label.metadata, '{}'),
       (select coalesce(jsonb_agg(policy.wishes), '[]')
          from {schema}.tier_policies as policy
         where policy.thread_id = known.thread_id),
       (select coalesce(jsonb_agg(policy.wishes), '[]')
          from {schema}.tier_policies as policy
         where label.metadata @> policy.metadata)
  from {schema}.tier_threads as known
  left join {schema}.tier_labels as label
    on label.thread_id = known.thread_id
 where known.thread_id = any(%(thread_ids)s::text[])
   and known.last_activity is not null;

-- name: longest_namespaces
-- How many checkpoints the longest namespace of each of these threads has.
select thread_id, max(checkpoints)
  from (select thread_id, count(*) as checkpoints
          from {schema}.checkpoints
         where thread_id = any(%(thread_ids)s::text[])
         group by thread_id, checkpoint_ns) as namespace
 group by thread_id;

-- name: note_shortened
update {schema}.tier_threads as known
   set shortened_at = known.last_activity,
       shortened_to = asked.keep
  from unnest(%(thread_ids)s::text[], %(keeps)s::int[]) as asked (thread_id, keep)
 where known.thread_id = asked.thread_id;

-- name: waiting
-- Which of these wait for a person: their newest checkpoint has the write of an interrupt. One of a subgraph is written
-- for its parent's task too.
select asked.thread_id
  from unnest(%(thread_ids)s::text[]) as asked (thread_id)
 where exists (select 1
                 from {schema}.checkpoint_writes as write
                where write.thread_id = asked.thread_id
                  and write.checkpoint_ns = ''
                  and write.checkpoint_id = (select max(newest.checkpoint_id)
                                               from {schema}.checkpoints as newest
                                              where newest.thread_id = asked.thread_id
                                                and newest.checkpoint_ns = '')
                  and write.channel = '__interrupt__');
