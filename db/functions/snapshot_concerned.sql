CREATE OR REPLACE FUNCTION livebox.snapshot_concerned(p_run livebox.runs, p_filter jsonb) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    -- What a process serves may have units that the saved document does not have yet.
    SELECT CASE p_filter->>'source'
               WHEN 'fleet' THEN p_run.thread_id IS NULL
               WHEN 'task' THEN p_run.thread_id IS NOT NULL
               WHEN 'direct' THEN p_run.document ? 'subagents' OR p_run.live_owner IS NOT NULL
               WHEN 'workflow' THEN p_run.document ? 'workflows' OR p_run.live_owner IS NOT NULL
               WHEN 'core_job' THEN p_run.document ? 'jobs' OR p_run.live_owner IS NOT NULL
               ELSE true END
       AND (p_filter->'active' IS DISTINCT FROM 'false' OR p_run.finished_at IS NOT NULL
            OR p_run.document ?| ARRAY['subagents', 'workflows', 'jobs'] OR p_run.live_owner IS NOT NULL)
$$;
COMMENT ON FUNCTION livebox.snapshot_concerned(livebox.runs, jsonb) IS
    'Whether a run or a unit in its document can pass a filter (source, active); the process that maps them decides.';
