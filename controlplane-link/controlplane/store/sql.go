package store

// The statements. Both databases understand them: parameters are $1, $2, …; a value that is read
// once may be named twice.
const (
	// lockOrganisation makes writes of an organisation serial: it locks its row until the transaction ends.
	lockOrganisation    = `UPDATE organisations SET generation = generation + 1 WHERE name = $1 RETURNING generation`
	raiseGeneration     = `UPDATE organisations SET generation = $2 WHERE name = $1 AND generation < $2`
	selectGeneration    = `SELECT generation FROM organisations WHERE name = $1`
	insertOrganisation  = `INSERT INTO organisations (name, display_name, created, generation) VALUES ($1, $2, $3, 0) ON CONFLICT DO NOTHING`
	selectOrganisations = `SELECT name, display_name, created FROM organisations`
	selectOrganisation  = selectOrganisations + ` WHERE name = $1`

	userColumns         = `SELECT id, organisation, subject, email, first_name, last_name, avatar, role, created, updated FROM users WHERE organisation = $1`
	selectUsers         = userColumns
	selectUser          = userColumns + ` AND id = $2`
	selectUserBySubject = userColumns + ` AND subject = $2 AND subject <> ''`
	upsertUser          = `INSERT INTO users (id, organisation, subject, email, first_name, last_name, avatar, role, created, updated)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (id) DO UPDATE SET subject = $3, email = $4, first_name = $5, last_name = $6,
		avatar = $7, role = $8, updated = $10 WHERE users.organisation = $2`
	countAccounts = `SELECT COUNT(*) FROM service_accounts WHERE organisation = $1`
	deleteUser    = `DELETE FROM users WHERE organisation = $1 AND id = $2`

	selectServiceAccounts = `SELECT organisation, name, description, role, created, updated FROM service_accounts WHERE organisation = $1`
	selectServiceAccount  = selectServiceAccounts + ` AND name = $2`
	insertServiceAccount  = `INSERT INTO service_accounts (organisation, name, description, role, created, updated)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`
	updateServiceAccount = `UPDATE service_accounts SET description = $3, role = $4, updated = $5 WHERE organisation = $1 AND name = $2`
	deleteServiceAccount = `DELETE FROM service_accounts WHERE organisation = $1 AND name = $2`

	insertCredential = `INSERT INTO credentials (digest, id, organisation, owner_kind, owner, description, masked, created, used, used_from, bound)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, '', '') ON CONFLICT DO NOTHING`
	countCredentials    = `SELECT COUNT(*) FROM credentials WHERE organisation = $1 AND owner_kind = $2 AND owner = $3`
	deleteCredential    = `DELETE FROM credentials WHERE organisation = $1 AND owner_kind = $2 AND owner = $3 AND id = $4`
	deleteCredentialsOf = `DELETE FROM credentials WHERE organisation = $1 AND owner_kind = $2 AND owner = $3 RETURNING id`
	touchCredential     = `UPDATE credentials SET used = $2, used_from = CASE WHEN $3 = '' THEN used_from ELSE $3 END
		WHERE id = $1 AND used < $2`
	selectAPIKeys = `SELECT id, organisation, owner_kind, owner, description, masked, digest, created, used FROM credentials
		WHERE organisation = $1 AND owner_kind = $2 AND owner = $3`
	selectClusterTokens = `SELECT id, organisation, owner, masked, digest, created, used, used_from FROM credentials
		WHERE owner_kind = 'cluster' AND organisation = $1 AND owner = $2`
	selectClusterToken = selectClusterTokens + ` AND id = $3`
	selectCaller       = `SELECT c.organisation, c.owner_kind, c.owner, COALESCE(u.email, c.owner), COALESCE(u.role, a.role, ''), c.id, c.masked
		FROM credentials c
		LEFT JOIN users u ON c.owner_kind = 'user' AND u.organisation = c.organisation AND u.id = c.owner
		LEFT JOIN service_accounts a ON c.owner_kind = 'serviceAccount' AND a.organisation = c.organisation AND a.name = c.owner
		WHERE c.digest = $1`
	selectToken      = `SELECT id, organisation, owner FROM credentials WHERE digest = $1 AND owner_kind = 'cluster'`
	selectTokenIDs   = `SELECT id FROM credentials WHERE owner_kind = 'cluster'`
	selectTokenBound = `SELECT bound FROM credentials WHERE id = $1 AND owner_kind = 'cluster'`
	bindToken        = `UPDATE credentials SET bound = $2 WHERE id = $1 AND bound = '' AND owner_kind = 'cluster'`

	deviceLoginColumns      = `SELECT device, user_code, created, expires, polled, organisation, user_id, denied, session, address, preview FROM device_logins`
	selectDeviceLogin       = deviceLoginColumns + ` WHERE device = $1`
	selectDeviceLoginByCode = deviceLoginColumns + ` WHERE user_code = $1`
	insertDeviceLogin       = `INSERT INTO device_logins (device, user_code, created, expires, polled, organisation, user_id, denied, address, preview)
		SELECT $1, $2, $3, $4, 0, '', '', 0, $5, $6 WHERE (SELECT COUNT(*) FROM device_logins) < $7 ON CONFLICT DO NOTHING`
	pollDeviceLogin    = `UPDATE device_logins SET polled = $2 WHERE device = $1`
	decideDeviceLogin  = `UPDATE device_logins SET organisation = $2, user_id = $3, denied = $4, session = $5 WHERE device = $1 AND user_id = '' AND denied = 0`
	deleteDeviceLogin  = `DELETE FROM device_logins WHERE device = $1 AND organisation = $2 AND user_id = $3 AND user_id <> '' AND denied = 0`
	deleteDeviceLogins = `DELETE FROM device_logins WHERE expires < $1`

	loginColumns         = `SELECT access, refresh, organisation, user_id, created, expires, refresh_by FROM logins`
	selectLogin          = loginColumns + ` WHERE access = $1`
	selectLoginByRefresh = loginColumns + ` WHERE refresh = $1`
	insertLogin          = `INSERT INTO logins (access, refresh, organisation, user_id, created, expires, refresh_by)
		VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`
	deleteLogin          = `DELETE FROM logins WHERE access = $1`
	deleteLoginByRefresh = `DELETE FROM logins WHERE refresh = $1`
	deleteLoginsOf       = `DELETE FROM logins WHERE organisation = $1 AND user_id = $2`
	deleteLoginsBefore   = `DELETE FROM logins WHERE refresh_by < $1`

	selectClusters = `SELECT organisation, name, created, operator_version, config FROM clusters WHERE organisation = $1`
	selectCluster  = selectClusters + ` AND name = $2`
	insertCluster  = `INSERT INTO clusters (organisation, name, created, operator_version, config) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`
	countClusters  = `SELECT COUNT(*) FROM clusters WHERE organisation = $1`
	reportCluster  = `UPDATE clusters SET operator_version = $3, config = $4 WHERE organisation = $1 AND name = $2`
	deleteCluster  = `DELETE FROM clusters WHERE organisation = $1 AND name = $2`

	selectSessions = `SELECT organisation, cluster, epoch, instance, replica, until, superseded FROM agent_sessions`
	selectSession  = selectSessions + ` WHERE organisation = $1 AND cluster = $2`
	insertSession  = `INSERT INTO agent_sessions (organisation, cluster, epoch, instance, replica, until, superseded)
		VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`
	updateSession = `UPDATE agent_sessions SET epoch = $3, instance = $4, replica = $5, until = $6, superseded = $7
		WHERE organisation = $1 AND cluster = $2 AND epoch = $8 AND instance = $9 AND replica = $10 AND until = $11 AND superseded = $12`

	selectAllObjects = `SELECT kind, organisation, name, cluster, routing_key, spec, plugins, generation, created, updated, deleted, force, unmatched, author, forced_by, status
		FROM objects WHERE organisation = $1`
	selectNamed              = selectAllObjects + ` AND name = $2`
	selectObjects            = selectAllObjects + ` AND kind = $2`
	selectObject             = selectObjects + ` AND name = $3`
	selectObjectsWithPlugins = selectAllObjects + ` AND plugins <> ''`
	numberGroup              = `UPDATE objects SET generation = $3, unmatched = $4 WHERE organisation = $1 AND name = $2`
	selectObjectsIn          = `SELECT kind, name FROM objects WHERE organisation = $1 AND cluster IN ($2, '')`
	countObjects             = `SELECT COUNT(*) FROM objects WHERE organisation = $1 AND kind = $2`
	sumObjects               = `SELECT COALESCE(SUM(OCTET_LENGTH(spec)), 0) FROM objects WHERE organisation = $1 AND kind = $2`
	insertRoutingKey         = `INSERT INTO routing_keys (routing_key, organisation, name) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
	insertObject             = `INSERT INTO objects (organisation, name, kind, cluster, routing_key, spec, plugins, generation, created, updated, deleted, force, author, observed, status)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, 0, $11, 0, '')`
	updateObject      = `UPDATE objects SET spec = $3, plugins = $4, generation = $5, updated = $6, author = $7 WHERE organisation = $1 AND name = $2`
	markObjectDeleted = `UPDATE objects SET generation = $3, deleted = $4, force = $5, author = $6, forced_by = $7 WHERE organisation = $1 AND name = $2`
	deleteObject      = `DELETE FROM objects WHERE organisation = $1 AND name = $2 AND kind = $3 AND generation = $4 AND deleted <> 0`
	lockObject        = `UPDATE objects SET observed = observed WHERE organisation = $1 AND name = $2`
	lockGroups        = `UPDATE objects SET observed = observed WHERE organisation = $1 AND kind = 'routegroup'`
	partObject        = `UPDATE objects SET status = $3 WHERE organisation = $1 AND name = $2`
	observeObject     = `UPDATE objects SET observed = $4, status = $5
		WHERE organisation = $1 AND name = $2 AND kind = $3 AND observed <= $4 AND generation >= $4 AND status <> $5`

	// Package jobstore has the other statements of these tables.
	selectRunnerGroupsIn = `SELECT name FROM runner_groups WHERE organisation = $1 AND cluster = $2 AND deleted = 0 AND namespace <> $3`
	dropRunnerGroups     = `DELETE FROM runner_groups WHERE organisation = $1 AND cluster = $2 AND (deleted <> 0 OR namespace = $3)`
	dropJobs             = `DELETE FROM jobs WHERE organisation = $1 AND cluster = $2`
	dropExecutions       = `DELETE FROM test_executions WHERE organisation = $1 AND cluster = $2 AND phase IN ('pending', 'in_progress')`

	selectPlugins = `SELECT organisation, name, version, spec, created, updated FROM plugins WHERE organisation = $1`
	selectPlugin  = selectPlugins + ` AND name = $2 AND version = $3`
	insertPlugin  = `INSERT INTO plugins (organisation, name, version, spec, created, updated) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`
	countPlugins  = `SELECT COUNT(*) FROM plugins WHERE organisation = $1`
	sumPlugins    = `SELECT COALESCE(SUM(OCTET_LENGTH(spec)), 0) FROM plugins WHERE organisation = $1`
	deletePlugin  = `DELETE FROM plugins WHERE organisation = $1 AND name = $2 AND version = $3`

	selectSecrets = `SELECT organisation, name, description, created, updated FROM secrets WHERE organisation = $1`
	selectSecret  = selectSecrets + ` AND name = $2`
	insertSecret  = `INSERT INTO secrets (organisation, name, description, key_id, sealed, created, updated)
		VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`
	countSecrets        = `SELECT COUNT(*) FROM secrets WHERE organisation = $1`
	updateSecret        = `UPDATE secrets SET description = $3, key_id = $4, sealed = $5, updated = $6 WHERE organisation = $1 AND name = $2`
	resealSecret        = `UPDATE secrets SET key_id = $3, sealed = $4 WHERE organisation = $1 AND name = $2`
	deleteSecret        = `DELETE FROM secrets WHERE organisation = $1 AND name = $2`
	sealedColumns       = `SELECT organisation, name, key_id, sealed FROM secrets WHERE organisation = $1`
	selectSealed        = sealedColumns + ` AND name = $2`
	selectSealedWithout = sealedColumns + ` AND key_id <> $2`
	selectSecretKeys    = `SELECT key_id FROM secrets UNION SELECT key_id FROM certificates`
	selectSealedWith    = `SELECT organisation, name, key_id, sealed FROM secrets WHERE key_id = $1 LIMIT 1`

	selectDevboxes = `SELECT organisation, id, user_id, metadata, created, updated, session, session_by, session_created, session_renewed, session_until
		FROM devboxes WHERE organisation = $1`
	selectDevbox = selectDevboxes + ` AND id = $2`
	insertDevbox = `INSERT INTO devboxes (organisation, id, user_id, metadata, created, updated, session, session_by, session_created, session_renewed, session_until)
		VALUES ($1, $2, $3, $4, $5, $6, '', '', 0, 0, 0) ON CONFLICT DO NOTHING`
	countDevboxes = `SELECT COUNT(*) FROM devboxes WHERE organisation = $1`
	updateDevbox  = `UPDATE devboxes SET metadata = $3, updated = $4 WHERE organisation = $1 AND id = $2`
	claimDevbox   = `UPDATE devboxes SET session = $3, session_by = $4, session_created = $5, session_renewed = $6, session_until = $7
		WHERE organisation = $1 AND id = $2`
	renewDevbox = `UPDATE devboxes SET session_renewed = $4, session_until = $5
		WHERE organisation = $1 AND id = $2 AND session = $3 AND session <> '' AND session_until > $4`
	deleteDevbox       = `DELETE FROM devboxes WHERE organisation = $1 AND id = $2`
	deleteIdleDevboxes = `DELETE FROM devboxes WHERE organisation = $1 AND updated < $2 AND session_renewed < $2`

	insertEvent = `INSERT INTO events (id, organisation, at, type, by_kind, by_id, by_name, method, masked, data)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`
	selectEvents = `SELECT id, organisation, at, type, by_kind, by_id, by_name, method, masked, data FROM events WHERE organisation = $1`
	deleteEvents = `DELETE FROM events WHERE id IN (SELECT id FROM events WHERE organisation = $1 AND at < $2 ORDER BY at LIMIT $3)`
	// Conditions of selectEvents, with the number of their parameter.
	eventsFrom   = ` AND at >= $%d`
	eventsTo     = ` AND at < $%d`
	eventsKind   = ` AND by_kind = $%d`
	eventsBy     = ` AND by_id = $%d`
	eventsMethod = ` AND method = $%d`
	eventsTypes  = ` AND type IN (%s)`
	eventsNewest = ` ORDER BY at DESC, id DESC LIMIT $%d`

	selectCertificates        = `SELECT name, version, key_id, sealed FROM certificates`
	selectCertificate         = selectCertificates + ` WHERE name = $1`
	selectCertificatesWithout = selectCertificates + ` WHERE key_id <> $1`
	insertCertificate         = `INSERT INTO certificates (name, version, key_id, sealed) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`
	updateCertificate         = `UPDATE certificates SET version = version + 1, key_id = $3, sealed = $4 WHERE name = $1 AND version = $2`
	resealCertificate         = `UPDATE certificates SET key_id = $3, sealed = $4 WHERE name = $1 AND version = $2`
)
