CREATE OR REPLACE FUNCTION livebox.report_repeats(p_run livebox.runs, p_body jsonb) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_given jsonb := p_body->'governance_events';
    v_first bigint := jsonb_array_length(p_run.governance_events) - jsonb_array_length(v_given);
BEGIN
    RETURN coalesce(p_body->>'status' = p_run.state, true)
       AND coalesce((p_body->>'cost_micros')::bigint = coalesce(p_run.cost_micros, -1), true)
       AND coalesce(p_body->>'halt_reason' = coalesce(p_run.halt_reason, ''), true)
       AND coalesce(p_body->>'detector' = coalesce(p_run.detector, ''), true)
       AND coalesce(livebox.time_of(p_body->>'ended_at') = coalesce(p_run.reported_ended_at, 'infinity'), true)
       AND (v_given IS NULL OR v_given = (
                SELECT jsonb_agg(e.value ORDER BY e.n)
                  FROM jsonb_array_elements(p_run.governance_events) WITH ORDINALITY AS e(value, n)
                 WHERE e.n > v_first)) IS TRUE;
END $$;
COMMENT ON FUNCTION livebox.report_repeats(livebox.runs, jsonb) IS
    'Whether a report says nothing of a run, but for counts of steps, that is not stored already: a repeat whose first answer was lost.';
