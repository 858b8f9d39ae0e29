-- The row is lifted to its reserved mark in the same statement: no version that somebody has seen comes again.
CREATE OR REPLACE FUNCTION livebox.take_live(rows jsonb) RETURNS SETOF jsonb
LANGUAGE sql VOLATILE AS $$
    WITH given AS MATERIALIZED (
        SELECT ordinality - 1 AS position,
               (value ->> 'run_id')::uuid AS run_id,
               value ->> 'owner' AS owner,
               (value ->> 'block')::bigint AS block,
               make_interval(secs => (value ->> 'lease')::double precision) AS lease
          FROM jsonb_array_elements(rows) WITH ORDINALITY
    ), present AS MATERIALIZED (
        SELECT r.id FROM livebox.runs r
         WHERE r.id = ANY ((SELECT array_agg(g.run_id) FROM given g)::uuid[])
           AND r.state IN ('queued', 'running', 'waiting_input') AND r.trigger_kind <> 'registration'
    ), locked AS MATERIALIZED (
        SELECT r.id, r.live_owner FROM livebox.runs r
         WHERE r.id = ANY ((SELECT array_agg(p.id) FROM present p)::uuid[])
           AND r.state IN ('queued', 'running', 'waiting_input')
         ORDER BY r.id
           FOR NO KEY UPDATE SKIP LOCKED
    ), asked AS MATERIALIZED (
        SELECT g.position, g.run_id, g.owner, g.block,
               CASE WHEN l.live_owner <> g.owner
                    THEN extract(epoch FROM o.seen_at + g.lease - livebox.clock())::double precision END AS wait
          FROM given g
          JOIN locked l ON l.id = g.run_id
          LEFT JOIN livebox.live_owners o ON o.owner = l.live_owner
    ), taken AS (
        UPDATE livebox.runs r
           SET live_owner = a.owner,
               live_epoch = r.live_epoch + 1,
               live_version = r.version_reserved,
               version = r.version_reserved,
               version_reserved = r.version_reserved + a.block
          FROM asked a
         WHERE r.id = a.run_id AND coalesce(a.wait, 0) <= 0
        RETURNING a.position
    )
    SELECT jsonb_build_object('position', t.position, 'outcome', 'taken') FROM taken t
    UNION ALL
    SELECT jsonb_build_object('position', a.position, 'outcome', 'elsewhere', 'wait', a.wait) FROM asked a WHERE a.wait > 0
    UNION ALL
    SELECT jsonb_build_object('position', g.position, 'outcome', 'gone') FROM given g
     WHERE NOT EXISTS (SELECT FROM present p WHERE p.id = g.run_id)
$$;
COMMENT ON FUNCTION livebox.take_live(jsonb) IS
    'Makes a process the owner of live documents: [{run_id, owner, block: versions to set aside, lease: seconds}]. Gives {position, outcome: taken | elsewhere | gone} for each row but those of runs that are locked by others; wait: seconds until the lease of the other owner ends, unless it is seen again. gone: the run has ended or has no live document.';
