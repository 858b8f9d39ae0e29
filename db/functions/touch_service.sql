CREATE OR REPLACE FUNCTION livebox.touch_service(p_gap double precision)
RETURNS TABLE (now_s double precision, away_s double precision) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_before livebox.service;
    v_now    timestamptz;
    v_ahead  boolean;
BEGIN
    SELECT * INTO STRICT v_before FROM livebox.service s FOR UPDATE;
    v_now := livebox.clock();
    -- A clock that went ahead and came back has left times that are not there yet: deadlines must not wait for them.
    v_ahead := v_before.touched_at > v_now + make_interval(secs => p_gap);
    UPDATE livebox.service s
       SET available_since = CASE WHEN v_before.touched_at + make_interval(secs => p_gap) < v_now THEN v_now
                                  WHEN v_ahead THEN least(v_before.available_since, v_now)
                                  ELSE v_before.available_since END,
           touched_at = CASE WHEN v_ahead THEN v_now ELSE greatest(v_before.touched_at, v_now) END;
    RETURN QUERY SELECT extract(epoch FROM v_now)::double precision,
                        CASE WHEN v_before.touched_at + make_interval(secs => p_gap) < v_now
                             THEN extract(epoch FROM v_now - v_before.touched_at)::double precision END;
END $$;
COMMENT ON FUNCTION livebox.touch_service(double precision) IS
    'Says that a process is there. Only when the touch before, whoever made it, is longer ago than p_gap seconds does the service count as available since now. Gives the time, and for how many seconds nobody was there if that was long.';
