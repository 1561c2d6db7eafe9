// Package cache says where what was built or fetched is kept between runs,
// outside of the repository.
package cache

import (
	"os"
	"path/filepath"
)

// Dir is $SWITCHYARD_CACHE, or the folder switchyard in the user's cache
// folder, or in /var/cache for a user without one.
func Dir() string {
	if dir := os.Getenv("SWITCHYARD_CACHE"); dir != "" {
		return dir
	}
	user, err := os.UserCacheDir()
	if err != nil {
		user = "/var/cache"
	}
	return filepath.Join(user, "switchyard")
}
