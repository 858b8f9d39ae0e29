CREATE OR REPLACE FUNCTION livebox.named_steps(p_run uuid, p_ids jsonb) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT jsonb_object_agg(s.id, jsonb_strip_nulls(jsonb_build_object(
               'status', s.status,
               'title', s.title,
               'parent_step_id', s.parent_step_id,
               'ended_at_ms', floor(extract(epoch FROM s.finished_at) * 1000)::bigint,
               'with_run', nullif(s.finished_at = r.finished_at AND s.status = r.state, false),
               'duration_ms', s.duration_ms)))
      FROM livebox.run_steps s JOIN livebox.runs r ON r.id = s.run_id
     WHERE s.run_id = p_run AND s.id = ANY (ARRAY(SELECT n::uuid FROM jsonb_array_elements_text(p_ids) AS n))
$$;
COMMENT ON FUNCTION livebox.named_steps(uuid, jsonb) IS
    'What a snapshot needs of these steps of a run, by id; with_run: the step was closed by the end of the run. NULL when there is none.';
