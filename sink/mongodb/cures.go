package mongodb

import "keyfold/engine/cure"

// What cures faults of the store.
const (
	uriSetting        cure.Name = "mongodb.Config.URI"
	databaseSetting   cure.Name = "mongodb.Config.Database"
	dimensionsSetting cure.Name = "profile.Config.Dimensions"
	historySetting    cure.Name = "profile.Config.History"
	modelSetting      cure.Name = "profile.Config.Model"
	formatSetting     cure.Name = "mongodb.Config.Format"
	typesSetting      cure.Name = "profile.OwnType"
	learnedSetting    cure.Name = "settings.Engine.Learned"
	shortSetting      cure.Name = "profile.Config.ShortHalfLife"
	setupCommand      cure.Name = "mongodb.Setup"
	shardCommand      cure.Name = "mongodb.Shard"
	learnCommand      cure.Name = "products.Learn"
	importCommand     cure.Name = "products.Embed"
	rebuildCommand    cure.Name = "users.RebuildAll"
)
