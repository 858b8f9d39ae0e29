CREATE OR REPLACE FUNCTION livebox.unfit_report(p_run livebox.runs, p_new livebox.runs, p_body jsonb, p_limits jsonb, p_me uuid)
RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_status text := p_body->>'status';
    v_large  bigint;
BEGIN
    IF p_body ? 'cost_micros' AND p_run.spend_entries > 0 THEN
        RETURN livebox.run_conflict('cost_owned_by_ledger', p_run, p_me);
    ELSIF p_body ? 'ended_at' AND coalesce(v_status NOT IN ('completed', 'failed', 'cancelled'), true) THEN
        RETURN livebox.invalid_member('not_allowed_value', '/ended_at', 'Only together with the status of an end.');
    ELSIF v_status = 'failed' AND p_new.halt_reason IS NULL THEN
        RETURN livebox.invalid_member('required', '/halt_reason', 'A failed run needs a reason.');
    ELSIF jsonb_array_length(p_new.governance_events) > (p_limits->>'registered.governance_events_max')::bigint THEN
        RETURN livebox.invalid_member('too_many', '/governance_events', 'More than registered.governance_events_max.');
    ELSIF jsonb_array_length(p_body->'governance_events') > 0 THEN
        SELECT e.n - 1 INTO v_large
          FROM jsonb_array_elements(p_body->'governance_events') WITH ORDINALITY AS e(value, n)
         WHERE octet_length(e.value::text) > (p_limits->>'run.step_detail_max_bytes')::bigint LIMIT 1;
        IF v_large IS NOT NULL THEN
            RETURN livebox.invalid_member('too_long', '/governance_events/' || v_large, 'Larger than run.step_detail_max_bytes.');
        END IF;
    END IF;
    IF v_status IS NOT NULL AND NOT EXISTS (
           SELECT FROM livebox.run_transitions t WHERE t.from_state = p_run.state AND t.to_state = v_status) THEN
        RETURN livebox.run_conflict('invalid_state_transition', p_run, p_me);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION livebox.unfit_report(livebox.runs, livebox.runs, jsonb, jsonb, uuid) IS
    'Refuses a report on an active registered run that does not go together with it; NULL when it fits. p_new: the run with the report in it. Needs the limits run.step_detail_max_bytes and registered.governance_events_max.';
