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

-- name: still_idle
-- Which of these are old enough, asked under their locks: an archiver, or the stock saver, may have written meanwhile.
select known.thread_id
  from {schema}.tier_threads as known
 where known.thread_id = any(%(thread_ids)s::text[])
   and known.last_activity < now() - make_interval(secs => %(age)s)
   and not exists (select 1
                     from {schema}.checkpoints as checkpoint
                    where checkpoint.thread_id = known.thread_id
                      and checkpoint.checkpoint_ns = ''
                      and checkpoint.checkpoint_id = (select max(newest.checkpoint_id)
                                                        from {schema}.checkpoints as newest
                                                       where newest.thread_id = known.thread_id
                                                         and newest.checkpoint_ns = '')
                      and {moment_of_checkpoint} >= now() - make_interval(secs => %(age)s));

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
