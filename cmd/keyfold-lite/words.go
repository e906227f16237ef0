package main

import "keyfold/engine/cure"

// What the rooms name in their faults, as it is done here.
func init() {
	cure.Use(map[cure.Name]string{
		"products.Learn":   "`keyfold-lite products learn`",
		"products.Import":  "`keyfold-lite products import`",
		"users.Rebuild":    "a replay of the user's events into another --data folder",
		"users.RebuildAll": "a replay of all events into another --data folder",
	})
}
