CREATE OR REPLACE FUNCTION livebox.save_signs_of_life(rows jsonb) RETURNS SETOF jsonb
LANGUAGE sql VOLATILE AS $$
    WITH given AS MATERIALIZED (
        SELECT (value ->> 'run_id')::uuid AS run_id,
               array_agg(ordinality - 1) AS positions,
               min(coalesce((value ->> 'age')::double precision, 0)) AS age,
               min(coalesce((value ->> 'age')::double precision, 0)) FILTER (WHERE (value ->> 'progress')::boolean) AS progress_age
          FROM jsonb_array_elements(rows) WITH ORDINALITY
         GROUP BY 1
    ), present AS MATERIALIZED (
        SELECT r.id FROM livebox.runs r
         WHERE r.id = ANY ((SELECT array_agg(g.run_id) FROM given g)::uuid[])
           AND r.state IN ('queued', 'running', 'waiting_input')
    ), locked AS MATERIALIZED (
        SELECT r.id FROM livebox.runs r
         WHERE r.id = ANY ((SELECT array_agg(p.id) FROM present p)::uuid[])
           AND r.state IN ('queued', 'running', 'waiting_input')
         ORDER BY r.id
           FOR NO KEY UPDATE SKIP LOCKED
    ), now AS MATERIALIZED (
        SELECT livebox.clock() AS at
    ), saved AS (
        UPDATE livebox.runs r
           SET last_heartbeat_at = greatest(r.last_heartbeat_at, now.at - make_interval(secs => g.age)),
               last_progress_at = greatest(r.last_progress_at, now.at - make_interval(secs => g.progress_age)),
               holder_seen_at = CASE WHEN r.claim_id IS NULL THEN r.holder_seen_at
                                     ELSE greatest(r.holder_seen_at, now.at - make_interval(secs => g.age)) END
          FROM given g, locked l, now
         WHERE r.id = l.id AND g.run_id = l.id
        RETURNING g.positions, r.last_progress_at > r.stalled_since AS moving
    )
    SELECT jsonb_strip_nulls(jsonb_build_object('position', position, 'outcome', 'saved', 'moving', nullif(saved.moving, false)))
      FROM saved, unnest(saved.positions) AS position
    UNION ALL
    SELECT jsonb_build_object('position', position, 'outcome', 'ended') FROM given g, unnest(g.positions) AS position
     WHERE NOT EXISTS (SELECT FROM present p WHERE p.id = g.run_id)
$$;
COMMENT ON FUNCTION livebox.save_signs_of_life(jsonb) IS
    'Writes when runs were last heard of: [{run_id, age?: seconds since the sign, progress?: boolean}]. Times only rise. Gives {position, outcome: saved | ended} for each row but those of runs that are locked by others; an ended or unknown run takes no signs. moving: the run shows as stalled and is not.';
