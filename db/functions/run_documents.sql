CREATE OR REPLACE FUNCTION livebox.run_documents(p_ids uuid[]) RETURNS SETOF jsonb
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object(
               'epoch', r.live_epoch,
               'owner', r.live_owner,
               'reserved', r.version_reserved,
               'live_version', r.live_version,
               'final', r.document_final,
               'claim_id', r.claim_id,
               'invocation_jti', r.invocation_jti,
               'renewed_from_jti', r.renewed_from_jti,
               'registered', nullif(r.trigger_kind = 'registration', false)))
           || jsonb_build_object('current', livebox.run_current_json(r), 'run', livebox.run_json(r))
      FROM livebox.runs r
     WHERE r.id = ANY (p_ids)
$$;
COMMENT ON FUNCTION livebox.run_documents(uuid[]) IS
    'Runs whole, and what a process that serves their live documents has to know beside: for the process itself, without rights.';
