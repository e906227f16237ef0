package openai

import "keyfold/engine/cure"

// The settings that faults of the API name.
const (
	BaseURLSetting    cure.Name = "openai.Config.BaseURL"
	modelSetting      cure.Name = "profile.Config.Model"
	dimensionsSetting cure.Name = "profile.Config.Dimensions"
)
