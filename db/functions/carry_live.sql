CREATE OR REPLACE FUNCTION livebox.carry_live(p_live jsonb) RETURNS void LANGUAGE sql VOLATILE AS $$
    UPDATE livebox.runs r
       SET document = p_live->'document',
           document_as_of = greatest(r.document_as_of, livebox.clock()),
           version = (p_live->>'version')::bigint,
           live_version = (p_live->>'version')::bigint
     WHERE r.id = (p_live->>'run_id')::uuid
       AND r.live_epoch = (p_live->>'epoch')::bigint
       AND r.version < (p_live->>'version')::bigint
       AND r.state IN ('queued', 'running', 'waiting_input')
$$;
COMMENT ON FUNCTION livebox.carry_live(jsonb) IS
    'Saves the live content {run_id, epoch, version, document} along with an operation of its owner. What has been overtaken is left out: the owner finds that out when it reads the run again.';
