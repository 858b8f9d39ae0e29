-- Only finished steps that no other step refers to go, oldest first: a step goes after its children, so that no reference
-- is left without its end.
CREATE OR REPLACE FUNCTION livebox.compact_steps(p_run livebox.runs, p_limits jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_most    bigint := (p_limits->>'run.max_steps_persisted')::bigint;
    v_summary livebox.run_steps;
    v_gone    record;
    v_excess  bigint;
    v_found   boolean := false;
BEGIN
    SELECT * INTO v_summary
      FROM livebox.run_steps s WHERE s.run_id = p_run.id AND s.stands_for IS NOT NULL;
    IF p_run.step_count - coalesce(v_summary.stands_for - 1, 0) <= v_most OR v_most IS NULL THEN
        RETURN;
    END IF;
    IF v_summary.id IS NULL THEN
        v_summary.id := livebox.new_id();
        v_summary.detail := '{"steps": 0, "completed": 0, "failed": 0, "cancelled": 0}';
    END IF;
    v_excess := p_run.step_count - (v_summary.detail->>'steps')::bigint + 1 - v_most;
    WHILE v_excess > 0 LOOP
        WITH chosen AS (
            SELECT s.id FROM livebox.run_steps s
             WHERE s.run_id = p_run.id AND s.status <> 'running' AND s.recorded_by IS NOT NULL
               AND s.ordinal < p_run.step_count
               AND NOT EXISTS (SELECT FROM livebox.run_steps c WHERE c.run_id = s.run_id AND c.parent_step_id = s.id)
             ORDER BY s.ordinal
             LIMIT v_excess
        ), gone AS (
            DELETE FROM livebox.run_steps s USING chosen WHERE s.run_id = p_run.id AND s.id = chosen.id RETURNING s.*
        )
        SELECT count(*) AS steps, min(g.ordinal) AS ordinal, min(g.started_at) AS started_at, max(g.finished_at) AS finished_at,
               count(*) FILTER (WHERE g.status = 'completed') AS completed,
               count(*) FILTER (WHERE g.status = 'failed') AS failed,
               count(*) FILTER (WHERE g.status = 'cancelled') AS cancelled
          INTO v_gone FROM gone g;
        EXIT WHEN v_gone.steps = 0;
        v_found := true;
        v_excess := v_excess - v_gone.steps;
        v_summary.ordinal := least(v_summary.ordinal, v_gone.ordinal);
        v_summary.started_at := least(v_summary.started_at, v_gone.started_at);
        v_summary.finished_at := greatest(v_summary.finished_at, v_gone.finished_at);
        v_summary.detail := jsonb_build_object(
            'steps', (v_summary.detail->>'steps')::bigint + v_gone.steps,
            'completed', (v_summary.detail->>'completed')::bigint + v_gone.completed,
            'failed', (v_summary.detail->>'failed')::bigint + v_gone.failed,
            'cancelled', (v_summary.detail->>'cancelled')::bigint + v_gone.cancelled);
    END LOOP;
    IF NOT v_found THEN
        RETURN;
    END IF;
    DELETE FROM livebox.run_steps s WHERE s.run_id = p_run.id AND s.id = v_summary.id;
    INSERT INTO livebox.run_steps (run_id, id, ordinal, kind, name, title, status, detail, stands_for, started_at, finished_at)
    VALUES (p_run.id, v_summary.id, v_summary.ordinal, 'status', 'earlier_steps',
            format('%s earlier steps', v_summary.detail->>'steps'), 'completed', v_summary.detail,
            (v_summary.detail->>'steps')::bigint, v_summary.started_at, v_summary.finished_at);
END $$;
COMMENT ON FUNCTION livebox.compact_steps(livebox.runs, jsonb) IS
    'Puts the oldest finished steps of an active run into its one summary step as far as there are more than run.max_steps_persisted; the count of the run stays that of all that were recorded. Without that limit nothing is compacted.';
