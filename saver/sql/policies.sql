-- name: policies
select name, thread_id, metadata, wishes
  from {schema}.tier_policies
 order by name;

-- name: set_policy
insert into {schema}.tier_policies (name, thread_id, metadata, wishes)
values (%(name)s, %(thread_id)s, %(metadata)s, %(wishes)s)
    on conflict (name) do update
   set thread_id = excluded.thread_id,
       metadata = excluded.metadata,
       wishes = excluded.wishes
returning name;

-- name: remove_policy
delete from {schema}.tier_policies
 where name = %(name)s
returning name;

-- name: held
-- Whether somebody put a hold on a thread: it says so itself, or a policy does.
select exists (select 1
                 from {schema}.tier_labels
                where thread_id = %(thread_id)s
                  and metadata -> 'tier_legal_hold' not in ('false', 'null'))
    or exists (select 1
                 from {schema}.tier_policies as policy
                where policy.wishes -> 'tier_legal_hold' not in ('false', 'null')
                  and (policy.thread_id = %(thread_id)s
                       or policy.metadata <@ (select metadata
                                                from {schema}.tier_labels
                                               where thread_id = %(thread_id)s)));
