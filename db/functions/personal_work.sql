-- Only from rows, so that it is neither lost nor doubled whatever became of a push. What is told of a run goes to who holds
-- its present claim: whoever was superseded is told nothing.
CREATE OR REPLACE FUNCTION livebox.personal_work(p_args jsonb) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_limits    jsonb := p_args->'limits';
    v_agents    uuid[] := ARRAY(SELECT a::uuid FROM jsonb_array_elements_text(p_args->'agents') AS a);
    v_claimable jsonb;
    v_cancels   jsonb;
    v_held      jsonb;
    v_working   uuid[];
    v_followups jsonb;
BEGIN
    SELECT coalesce(jsonb_object_agg(w.id, w.most) FILTER (WHERE w.most > 0), '{}') INTO v_claimable
      FROM (SELECT a.key AS id, (SELECT count(*) FROM livebox.claimable_runs(a.key::uuid, a.value::bigint, v_limits)) AS most
              FROM jsonb_each_text(p_args->'room') AS a) AS w;
    SELECT coalesce(jsonb_agg(jsonb_build_object('agent_id', r.agent_id, 'run_id', r.id, 'cancel', livebox.run_cancel_json(r))
                              ORDER BY r.cancel_requested_at, r.id), '[]') INTO v_cancels
      FROM livebox.runs r
     WHERE r.agent_id = ANY (v_agents) AND r.state = 'running' AND r.cancel_deadline IS NOT NULL;
    SELECT coalesce(jsonb_agg(jsonb_build_object('run_id', r.id, 'claim_id', r.claim_id, 'state', r.state)), '[]'),
           coalesce(array_agg(r.id) FILTER (WHERE r.state <> 'queued'), '{}')
      INTO v_held, v_working
      FROM jsonb_array_elements(p_args->'held') AS h
      JOIN livebox.runs r ON r.id = (h->>'run_id')::uuid AND r.claim_id = (h->>'claim_id')::uuid
                         AND r.state IN ('queued', 'running', 'waiting_input');
    SELECT coalesce(jsonb_agg(jsonb_build_object('run_id', r.id, 'claim_id', r.claim_id)
                              || livebox.run_followup_json(f, livebox.authorize(
                                     r.agent_id, 'run.read', jsonb_build_object('run_id', r.id)) IS NULL)
                              ORDER BY f.run_id, f.position), '[]') INTO v_followups
      FROM livebox.run_followups f JOIN livebox.runs r ON r.id = f.run_id
     WHERE f.run_id = ANY (v_working) AND f.state = 'pending';
    RETURN livebox.done('ok', jsonb_build_object(
        'claimable', v_claimable, 'cancels', v_cancels, 'held', v_held, 'followups', v_followups));
END $$;
COMMENT ON FUNCTION livebox.personal_work(jsonb) IS
    'What waits for agents: for each of args.room (agent: how many at most) how many runs it can be handed, open requests to cancel of args.agents, and of args.held ({run_id, claim_id}) which are still held so, with what is pending for them; a message is left out where the agent may not read it. Needs the limits of claimable_runs.';
