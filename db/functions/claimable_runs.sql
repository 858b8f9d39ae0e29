-- A waiting run is handed to another holder only when somebody answered and the one that asked is gone: neither heard of
-- nor, since the service answers again, able to be heard. An answer that it took before it went counts all the same.
CREATE OR REPLACE FUNCTION livebox.claimable_runs(p_agent uuid, p_most bigint, p_limits jsonb)
RETURNS TABLE (run_id uuid) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now   timestamptz := livebox.clock();
    v_lease interval := make_interval(secs => (p_limits->>'run.claim_lease')::double precision);
    v_grace interval := make_interval(secs => (p_limits->>'run.holder_grace')::double precision);
    v_since timestamptz := livebox.service_since(v_now, p_limits);
BEGIN
    RETURN QUERY
    SELECT r.id FROM livebox.runs r
     WHERE r.agent_id = p_agent AND r.state = 'waiting_input'
       AND r.claimed_at + v_lease <= v_now
       AND greatest(r.holder_seen_at, v_since) + v_grace <= v_now
       AND EXISTS (SELECT FROM livebox.run_followups f WHERE f.run_id = r.id AND f.answers_since IS NOT NULL)
     ORDER BY r.queued_at, r.id
     LIMIT p_most;
    RETURN QUERY
    SELECT r.id FROM livebox.runs r
     WHERE r.agent_id = p_agent AND r.state = 'queued' AND r.trigger_kind <> 'registration' AND (r.claimed_at IS NULL OR r.claimed_at + v_lease <= v_now)
     ORDER BY r.queued_at, r.id
     LIMIT p_most;
END $$;
COMMENT ON FUNCTION livebox.claimable_runs(uuid, bigint, jsonb) IS
    'What an agent can be handed, at most p_most of each: first waiting runs with an answer whose holder is gone, then queued ones, oldest first. Needs the limits run.claim_lease, run.holder_grace and service.gap.';
