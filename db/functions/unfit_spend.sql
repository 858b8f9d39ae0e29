CREATE OR REPLACE FUNCTION livebox.unfit_spend(p_run livebox.runs, p_new livebox.runs, p_entry livebox.run_spend, p_me uuid)
RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_most CONSTANT bigint := 9007199254740991;
BEGIN
    IF p_entry.agent_id IS NULL THEN
        RETURN livebox.invalid_member('required', '/agent_id', 'Say which agent of the run has spent it.');
    ELSIF NOT p_entry.agent_id = ANY (p_run.agents) THEN
        RETURN livebox.invalid_member('unknown_reference', '/agent_id', 'No such agent on this run.');
    ELSIF p_entry.agent_id <> p_me AND p_me <> p_run.registered_by THEN
        RETURN livebox.invalid_member('not_allowed_value', '/agent_id', 'An agent records its own spend.');
    ELSIF p_entry.currency <> coalesce(p_run.budget->'cost'->>'currency',
                                       CASE WHEN p_run.spend_entries > 0 THEN p_run.currency END, p_entry.currency) THEN
        RETURN livebox.run_conflict('currency_mismatch', p_run, p_me);
    ELSIF p_new.cost_micros > v_most THEN
        RETURN livebox.invalid_member('out_of_range', '/amount_micros', 'The sum would be more than can be kept.');
    ELSIF p_new.spend_tokens > v_most THEN
        RETURN livebox.invalid_member('out_of_range', '/tokens', 'The sum would be more than can be kept.');
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION livebox.unfit_spend(livebox.runs, livebox.runs, livebox.run_spend, uuid) IS
    'Refuses an entry of spend that does not go together with its run; NULL when it fits. p_new: the run with the entry in its totals.';
