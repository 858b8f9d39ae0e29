-- Beside the lane: it changes no version. The claim decides: who was superseded says nothing about the holder of now.
CREATE OR REPLACE FUNCTION livebox.save_presence(rows jsonb) RETURNS SETOF jsonb LANGUAGE sql VOLATILE AS $$
    WITH given AS MATERIALIZED (
        SELECT (value ->> 'run_id')::uuid AS run_id, (value ->> 'claim_id')::uuid AS claim_id, ordinality - 1 AS position,
               coalesce((value ->> 'age')::double precision, 0) AS age, (value ->> 'open')::boolean AS open
          FROM jsonb_array_elements(rows) WITH ORDINALITY
    ), present AS MATERIALIZED (
        SELECT r.id FROM livebox.runs r JOIN given g ON g.run_id = r.id AND g.claim_id = r.claim_id
         WHERE r.id = ANY ((SELECT array_agg(g.run_id) FROM given g)::uuid[])
           AND r.state IN ('queued', 'running', 'waiting_input')
    ), locked AS MATERIALIZED (
        SELECT r.id, r.claim_id FROM livebox.runs r
         WHERE r.id = ANY ((SELECT array_agg(p.id) FROM present p)::uuid[])
           AND r.state IN ('queued', 'running', 'waiting_input')
         ORDER BY r.id
           FOR NO KEY UPDATE SKIP LOCKED
    ), now AS MATERIALIZED (
        SELECT livebox.clock() AS at
    ), saved AS (
        UPDATE livebox.runs r
           SET holder_seen_at = greatest(r.holder_seen_at, now.at - make_interval(secs => g.age)),
               session_closed_at = CASE WHEN NOT g.open THEN now.at - make_interval(secs => g.age) END
          FROM given g, locked l, now
         WHERE r.id = l.id AND g.run_id = l.id AND g.claim_id = l.claim_id
        RETURNING g.position
    )
    SELECT jsonb_build_object('position', position, 'outcome', 'saved') FROM saved
    UNION ALL
    SELECT jsonb_build_object('position', g.position, 'outcome', 'gone') FROM given g
     WHERE NOT EXISTS (SELECT FROM present p WHERE p.id = g.run_id)
        OR EXISTS (SELECT FROM locked l WHERE l.id = g.run_id AND l.claim_id <> g.claim_id)
$$;
COMMENT ON FUNCTION livebox.save_presence(jsonb) IS
    'Writes whether the holders of runs have a gateway session open: [{run_id, claim_id, open: boolean, age?: seconds since it was so}], each run and claim once. Gives {position, outcome: saved | gone} for each row but those of runs that are locked by others; gone: the run has ended or another claim holds it.';
