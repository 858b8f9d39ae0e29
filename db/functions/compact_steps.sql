-- Works in tenths of what is kept, so that most steps pay nothing for it. Running steps stay: they are still to change.
CREATE OR REPLACE FUNCTION livebox.compact_steps(p_run livebox.runs, p_kept bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_before livebox.run_steps;
    v_gone   record;
BEGIN
    SELECT * INTO v_before FROM livebox.run_steps s WHERE s.run_id = p_run.id AND s.stands_for IS NOT NULL;
    IF (p_run.step_count - coalesce(v_before.stands_for, 1) + 1 > p_kept) IS NOT TRUE THEN
        RETURN;
    END IF;
    WITH oldest AS (
        SELECT s.id FROM livebox.run_steps s
         WHERE s.run_id = p_run.id AND s.finished_at IS NOT NULL
         ORDER BY s.ordinal LIMIT p_kept / 10 + 2
    ), gone AS (
        DELETE FROM livebox.run_steps s USING oldest o WHERE s.run_id = p_run.id AND s.id = o.id RETURNING s.*
    )
    SELECT sum(coalesce(g.stands_for, 1)) AS steps, max(g.ordinal) AS ordinal, min(g.started_at) AS started_at,
           max(g.finished_at) AS finished_at,
           coalesce(v_before.detail->'failed', '0')::bigint
               + count(*) FILTER (WHERE g.status = 'failed' AND g.stands_for IS NULL) AS failed
      INTO v_gone
      FROM gone g;
    IF v_gone.steps IS NOT NULL THEN
        INSERT INTO livebox.run_steps (run_id, id, ordinal, kind, name, title, status, detail, stands_for, started_at, finished_at)
        VALUES (p_run.id, coalesce(v_before.id, livebox.new_id()), v_gone.ordinal, 'status', 'earlier_steps',
                format('%s earlier steps', v_gone.steps), 'completed',
                jsonb_build_object('steps', v_gone.steps, 'failed', v_gone.failed), v_gone.steps,
                v_gone.started_at, v_gone.finished_at);
    END IF;
END $$;
COMMENT ON FUNCTION livebox.compact_steps(livebox.runs, bigint) IS
    'Where a run holds more than p_kept steps, puts one step in the place of the oldest finished ones, which says how many they were and how many failed. The run''s own count stays what it is.';
