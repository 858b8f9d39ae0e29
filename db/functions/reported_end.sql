CREATE OR REPLACE FUNCTION livebox.reported_end(p_run livebox.runs, p_body jsonb) RETURNS livebox.run_end
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_state  text := p_body->>'state';
    v_reason text := p_body->>'reason';
BEGIN
    IF v_state = 'completed' THEN
        IF v_reason IS NOT NULL THEN
            RETURN ROW(NULL, NULL, NULL, livebox.invalid_member(
                'not_allowed_value', '/reason', 'A completed run has no reason.'))::livebox.run_end;
        END IF;
        RETURN ROW(v_state, NULL, NULL, NULL)::livebox.run_end;
    ELSIF v_state = 'cancelled' THEN
        IF v_reason <> 'user_cancelled' THEN
            RETURN ROW(NULL, NULL, NULL, livebox.invalid_member(
                'not_allowed_value', '/reason', 'A cancelled run has the reason user_cancelled.'))::livebox.run_end;
        END IF;
        IF p_run.cancel_requested_at IS NULL THEN
            RETURN ROW('failed', 'adapter_error', v_state, NULL)::livebox.run_end;
        END IF;
        RETURN ROW(v_state, 'user_cancelled', NULL, NULL)::livebox.run_end;
    END IF;
    IF v_reason IS NULL THEN
        RETURN ROW(NULL, NULL, NULL, livebox.invalid_member(
            'required', '/reason', 'A failed run needs a reason.'))::livebox.run_end;
    ELSIF livebox.is_blank(v_reason) THEN
        RETURN ROW(NULL, NULL, NULL, livebox.invalid_member(
            'blank', '/reason', 'A reason cannot be blank.'))::livebox.run_end;
    END IF;
    RETURN ROW(v_state, livebox.normalise_reason(v_reason),
               CASE WHEN livebox.normalise_reason(v_reason) <> v_reason THEN v_reason END, NULL)::livebox.run_end;
END $$;
COMMENT ON FUNCTION livebox.reported_end(livebox.runs, jsonb) IS
    'The end that an adapter''s report amounts to: state, reason, and the original where it was replaced; or the refusal. cancelled counts only after it was asked for.';
