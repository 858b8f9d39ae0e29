CREATE OR REPLACE FUNCTION livebox.record_spend(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me      uuid := livebox.caller_id(p_caller);
    v_body    jsonb := p_args->'body';
    v_hold    livebox.run_hold := livebox.registered_run(p_caller, p_args);
    v_run     livebox.runs := v_hold.run;
    v_new     livebox.runs;
    v_entry   livebox.run_spend;
    v_stored  livebox.run_spend;
    v_refusal livebox.answer;
    v_change  livebox.run_change;
BEGIN
    IF (v_hold.refusal).code IS NOT NULL THEN
        RETURN v_hold.refusal;
    END IF;
    v_entry := jsonb_populate_record(NULL::livebox.run_spend, v_body);
    v_entry.run_id := v_run.id;
    v_entry.id := (p_args->>'entry_id')::uuid;
    v_entry.agent_id := coalesce(v_entry.agent_id, CASE WHEN v_me = ANY (v_run.agents) THEN v_me END);
    SELECT * INTO v_stored FROM livebox.run_spend s WHERE s.run_id = v_run.id AND s.id = v_entry.id;
    IF FOUND THEN
        IF (v_stored.agent_id, v_stored.amount_micros, v_stored.currency, v_stored.tokens)
           IS DISTINCT FROM (v_entry.agent_id, v_entry.amount_micros, v_entry.currency, v_entry.tokens) THEN
            RETURN livebox.run_conflict('spend_id_reused', v_run, v_me);
        END IF;
        RETURN livebox.done('ok', livebox.spend_entry_json(v_stored));
    END IF;
    v_new := livebox.run_spent(v_run, v_entry);
    v_refusal := livebox.unfit_spend(v_run, v_new, v_entry, v_me);
    IF v_refusal.code IS NOT NULL THEN
        RETURN v_refusal;
    END IF;
    INSERT INTO livebox.run_spend (run_id, id, agent_id, amount_micros, currency, tokens, recorded_by, recorded_at, late)
    VALUES (v_run.id, v_entry.id, v_entry.agent_id, v_entry.amount_micros, v_entry.currency, v_entry.tokens, v_me,
            livebox.run_now(v_run), v_run.finished_at IS NOT NULL)
    RETURNING * INTO v_stored;
    v_change := livebox.end_exhausted(livebox.save_reported(v_run, v_new, v_me), p_args->'limits');
    RETURN livebox.done('ok', livebox.spend_entry_json(v_stored), effects => v_change.effects);
END $$;
COMMENT ON FUNCTION livebox.record_spend(jsonb, jsonb) IS
    'recordSpend: one entry of the ledger of a registered run, once under its id; the entry that reaches the budget ends the run. The same again answers with the entry, another body under its id is refused. Needs the limit event.body_max_bytes.';
