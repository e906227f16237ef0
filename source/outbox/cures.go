package outbox

import "keyfold/engine/cure"

// What cures faults of the outbox.
const (
	urlSetting     cure.Name = "outbox.URL"
	afterSetting   cure.Name = "outbox.CleanerConfig.After"
	everySetting   cure.Name = "outbox.CleanerConfig.Every"
	rowsSetting    cure.Name = "outbox.CleanerConfig.Rows"
	typesSetting   cure.Name = "profile.OwnType"
	setupCommand   cure.Name = "outbox.Setup"
	adoptCommand   cure.Name = "outbox.Adopt"
	cleanupCommand cure.Name = "outbox.Cleanup"
	failedCommand  cure.Name = "outbox.Failed"
)
