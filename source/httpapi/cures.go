package httpapi

import "keyfold/engine/cure"

// The settings that faults of the API name.
const (
	addrSetting       cure.Name = "httpapi.Config.Addr"
	tokensSetting     cure.Name = "httpapi.Config.Tokens"
	tokenFileSetting  cure.Name = "httpapi.Config.TokenFile"
	insecureSetting   cure.Name = "httpapi.Config.Insecure"
	certSetting       cure.Name = "httpapi.Config.TLSCert"
	keySetting        cure.Name = "httpapi.Config.TLSKey"
	rateSetting       cure.Name = "httpapi.Config.Total"
	senderRateSetting cure.Name = "httpapi.Config.Sender"
	concurrentSetting cure.Name = "httpapi.Config.MaxConcurrent"
)

// TokenSettings names the settings that have the tokens.
func TokenSettings() string { return tokenFileSetting.String() + " or " + tokensSetting.String() }
