package database

// The statements of this package.
const (
	quickCheck     = `PRAGMA quick_check`
	serverEncoding = `SHOW server_encoding`
	listenTo       = `LISTEN `
	notify         = `SELECT pg_notify($1, $2)`
	backupTo       = `VACUUM INTO $1`
)
