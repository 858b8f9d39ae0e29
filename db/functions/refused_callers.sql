CREATE OR REPLACE FUNCTION livebox.refused_callers(p_args jsonb) RETURNS livebox.answer LANGUAGE sql STABLE AS $$
    SELECT livebox.done('ok', jsonb_build_object('refused', coalesce(jsonb_agg(jsonb_build_object(
        'at', asked.place - 1,
        'code', CASE WHEN EXISTS (SELECT FROM livebox.access_tokens t
                                    JOIN livebox.principals p ON p.id = t.principal_id AND p.status = 'active'
                                   WHERE t.id = (asked.caller->>'token')::uuid
                                     AND t.revoked_at IS NULL AND t.expires_at <= livebox.clock())
                     THEN 'token_expired' ELSE 'invalid_token' END)), '[]')))
      FROM jsonb_array_elements(p_args->'callers') WITH ORDINALITY AS asked (caller, place)
     WHERE NOT livebox.caller_active(asked.caller)
$$;
COMMENT ON FUNCTION livebox.refused_callers(jsonb) IS
    'Which of args.callers would be refused now, by place and code: for sessions that are open while tokens are revoked, tokens expire and principals are disabled.';
