package app

import "keyfold/engine/cure"

// The commands of what the rooms name in their faults.
func init() {
	cure.Use(map[cure.Name]string{
		"broker.Setup":           "`keyfold notify setup`",
		"broker.Show":            "`keyfold notify failed show`",
		"broker.ShowReport":      "`keyfold notify failed show --queue deliveries`",
		"mongodb.Setup":          "`keyfold setup`",
		"mongodb.Shard":          "`keyfold setup --shard`",
		"outbox.Adopt":           "`keyfold setup --adopt user_interactions`",
		"outbox.Cleanup":         "`keyfold outbox cleanup --dry-run`",
		"outbox.Failed":          "`keyfold failed list`",
		"outbox.Setup":           "`keyfold setup`",
		"postgres.Retention":     "`keyfold notify retention`",
		"postgres.Rollback":      "`keyfold notify rules rollback`",
		"postgres.RuleSets":      "`keyfold notify rules list`",
		"postgres.Setup":         "`keyfold notify setup`",
		"products.Embed":         "`keyfold products import FILE --embed`",
		"products.Learn":         "`keyfold products learn`",
		"products.Import":        "`keyfold products import`",
		"rabbit.Setup":           "`keyfold setup`",
		"rabbit.SetupPartitions": "`keyfold setup --partitions N`",
		"rabbit.SetupStreams":    "`keyfold setup --streams N`",
		"rabbit.Show":            "`keyfold failed show`",
		"rules.Publish":          "`keyfold notify rules publish`",
		"rules.Show":             "`keyfold notify rules show`",
		"streams.Accept":         "`keyfold streams accept`",
		"users.Forget":           "`keyfold user forget`",
		"users.Rebuild":          "`keyfold user rebuild`",
		"users.RebuildAll":       "`keyfold user rebuild --all`",
		"users.Show":             "`keyfold user show`",
	})
}
