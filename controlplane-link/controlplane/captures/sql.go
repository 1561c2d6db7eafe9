package captures

// The statements. Both databases understand them, as those of package store.
const (
	selectCaptures = `SELECT organisation, name, cluster, sandbox, workload, created, until, stopped, deleted, ended, revision, segments, requests, bytes, message, author, progress
		FROM captures WHERE organisation = $1`
	selectCapture = selectCaptures + ` AND name = $2`
	selectRunning = selectCaptures + ` AND cluster = $2 AND ended = 0`
	selectExpired = selectCaptures + ` AND (created < $2 OR deleted <> 0 AND ended <> 0)`
	// Those of Smart Tests (smarttests.Recording) are bounded by their executions.
	countCaptures = `SELECT COUNT(*) FROM captures WHERE organisation = $1 AND name NOT LIKE 'smart-test-_____________-sandbox-%'`
	countRunning  = countCaptures + ` AND ended = 0`
	sumBytes      = `SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM captures WHERE organisation = $1`
	insertCapture = `INSERT INTO captures (organisation, name, cluster, sandbox, workload, created, until, stopped, deleted, ended, revision, segments, requests, bytes, message, author, progress)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, 0, 0, 0, 0, 0, '', $8, '') ON CONFLICT DO NOTHING`
	stopCapture = `UPDATE captures SET stopped = $3 WHERE organisation = $1 AND name = $2 AND stopped = 0`
	markCapture = `UPDATE captures SET deleted = $3 WHERE organisation = $1 AND name = $2 AND deleted = 0`
	saveCapture = `UPDATE captures SET revision = revision + 1, segments = $4, requests = $5, bytes = $6, message = $7, progress = $8, ended = $9
		WHERE organisation = $1 AND name = $2 AND revision = $3 AND ended = 0`
	deleteCapture = `DELETE FROM captures WHERE organisation = $1 AND name = $2`

	insertSegment  = `INSERT INTO capture_segments (organisation, capture, number, file, requests, bytes) VALUES ($1, $2, $3, $4, $5, $6)`
	selectSegments = `SELECT number, file, requests, bytes FROM capture_segments WHERE organisation = $1 AND capture = $2 ORDER BY number`
	deleteSegments = `DELETE FROM capture_segments WHERE organisation = $1 AND capture = $2`
)
