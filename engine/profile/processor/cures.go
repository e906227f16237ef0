package processor

import "keyfold/engine/cure"

// What cures faults of events and profiles.
const (
	dimensionsSetting cure.Name = "profile.Config.Dimensions"
	historySetting    cure.Name = "profile.Config.History"
	modelSetting      cure.Name = "profile.Config.Model"
	shortSetting      cure.Name = "profile.Config.ShortHalfLife"
	importCommand     cure.Name = "products.Import"
	rebuildCommand    cure.Name = "users.Rebuild"
	rebuildAllCommand cure.Name = "users.RebuildAll"
)
