-- Policies for one thread, or for all whose labels contain some metadata, beside those of the TIER_ variables. The wishes
-- have the keys that a run can put into its own metadata (`saver/policy.py`).
create table {schema}.tier_policies (
    name text primary key,
    thread_id text,
    metadata jsonb,
    wishes jsonb not null,
    check ((thread_id is null) <> (metadata is null))
);

-- Threads with wishes of their own are few: they are found without looking at the others.
create index tier_labels_wishes
    on {schema}.tier_labels (thread_id)
 where metadata ?| '{tier_retain_for,tier_keep_checkpoints}'::text[];

-- Up to which activity a thread was shortened last, and to how many checkpoints.
alter table {schema}.tier_threads
  add column shortened_at timestamptz,
  add column shortened_to integer;
