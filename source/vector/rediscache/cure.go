package rediscache

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"keyfold/engine/causes"
)

// cure gives an error its cause, where that is known.
func (c *Cache) cure(err error) error {
	if err == nil {
		return nil
	}
	id := CauseOf(err)
	if c.where.sentinel != nil && errors.Is(err, redis.Nil) { // no sentinel knows the name
		id = causes.Missing
	}
	err = fmt.Errorf("redis: %w", err)
	if id == "" {
		return err
	}
	return causes.Explain(causes.Redis, id, err)
}

// CauseOf returns what keeps Redis from being used, "" where err does not say.
func CauseOf(err error) causes.ID {
	_, moved := redis.IsMovedError(err)
	switch {
	case redis.IsAuthError(err):
		return causes.Credentials
	case redis.IsPermissionError(err):
		return causes.Rights
	case moved:
		return causes.Settings
	case redis.IsOOMError(err):
		return causes.Memory
	case redis.IsMaxClientsError(err):
		return causes.Connections
	case redis.IsLoadingError(err):
		return causes.Stopping
	case redis.IsReadOnlyError(err):
		return causes.ReadOnly
	case redis.HasErrorPrefix(err, "MISCONF"): // it cannot write its file
		return causes.Disk
	default:
		return causes.Find(err)
	}
}
