-- The trigger runs_reports was made with the first of it (0009).
CREATE OR REPLACE FUNCTION livebox.guard_run_reports() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    -- Once, and only what changed is looked at: there may be megabytes, and each entry of spend comes by here.
    v_kept CONSTANT bigint := CASE WHEN NEW.governance_events IS DISTINCT FROM OLD.governance_events
                                   THEN jsonb_array_length(OLD.governance_events) END;
BEGIN
    IF NEW.spend_entries < OLD.spend_entries OR coalesce(NEW.spend_tokens, 0) < coalesce(OLD.spend_tokens, 0)
       OR (OLD.spend_entries > 0 AND (NEW.cost_micros < OLD.cost_micros OR NEW.currency <> OLD.currency))
       OR EXISTS (SELECT FROM jsonb_each(OLD.reported_steps) AS o
                   WHERE coalesce((NEW.reported_steps->>o.key)::bigint, -1) < (o.value)::bigint)
       OR (v_kept IS NOT NULL
           AND OLD.governance_events IS DISTINCT FROM (
               SELECT jsonb_agg(e.value ORDER BY e.n) FROM jsonb_array_elements(NEW.governance_events) WITH ORDINALITY AS e(value, n)
                WHERE e.n <= v_kept)) THEN
        RAISE EXCEPTION 'what was reported on a run is only added to' USING ERRCODE = 'LB111';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.guard_run_reports() IS 'LB111: spend and each reporter''s steps never fall, events of governance are only appended.';
