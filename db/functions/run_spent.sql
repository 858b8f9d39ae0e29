-- Two numbers below 2^53 add up within a bigint; whether the sum can be kept is for unfit_spend to say.
CREATE OR REPLACE FUNCTION livebox.run_spent(p_run livebox.runs, p_entry livebox.run_spend) RETURNS livebox.runs
LANGUAGE plpgsql STABLE AS $$
BEGIN
    p_run.cost_micros := p_entry.amount_micros + CASE WHEN p_run.spend_entries > 0 THEN p_run.cost_micros ELSE 0 END;
    p_run.currency := p_entry.currency;
    p_run.cost_is_estimate := false;
    p_run.spend_tokens := CASE WHEN p_entry.tokens IS NULL THEN p_run.spend_tokens
                               ELSE p_entry.tokens + coalesce(p_run.spend_tokens, 0) END;
    p_run.spend_entries := p_run.spend_entries + 1;
    RETURN p_run;
END $$;
COMMENT ON FUNCTION livebox.run_spent(livebox.runs, livebox.run_spend) IS
    'A registered run with one more entry in its totals. The first one takes the place of a cost that was only reported.';
