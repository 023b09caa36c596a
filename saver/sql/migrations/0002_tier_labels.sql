-- What the newest checkpoint of a thread says about it, without what changes with every step: by this, threads are found.
-- In a table of its own, which is written only when it changes, so that its index costs the archiver little.
create table {schema}.tier_labels (
    thread_id text primary key,
    metadata jsonb not null
);

insert into {schema}.tier_labels (thread_id, metadata)
select known.thread_id,
       newest.metadata - '{source,step,parents,writes,run_id,counters_since_delta_snapshot,delta_writes_versioned}'::text[]
  from {schema}.tier_threads as known
  join {schema}.checkpoints as newest
    on newest.thread_id = known.thread_id
   and newest.checkpoint_ns = ''
   and newest.checkpoint_id = known.head
 where known.last_activity is not null;

create index tier_labels_metadata
    on {schema}.tier_labels
 using gin (metadata jsonb_path_ops);
