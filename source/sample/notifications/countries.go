package notifications

import "keyfold/engine"

// country is where a user lives.
type country struct {
	name     string // English
	share    int    // of 1,000 users; of all zones of the country
	zone     string // IANA
	hours    float64
	language string // of the shop's texts there
	currency string
}

// offset is the country's standard time, without daylight saving: it places visits
// within a day, and is the same whatever zone data a machine has.
func (c *country) offset() engine.Millis { return engine.Millis(c.hours * 60 * 60 * 1000) }

// countries are those of an international shop's visitors. Half-hour zones and such
// with odd rules are among them.
var countries = []country{
	{"United States", 130, "America/New_York", -5, "en", "$"},
	{"United States", 70, "America/Chicago", -6, "en", "$"},
	{"United States", 20, "America/Denver", -7, "en", "$"},
	{"United States", 60, "America/Los_Angeles", -8, "en", "$"},
	{"United Kingdom", 100, "Europe/London", 0, "en", "£"},
	{"Germany", 110, "Europe/Berlin", 1, "de", "€"},
	{"Austria", 20, "Europe/Vienna", 1, "de", "€"},
	{"Switzerland", 20, "Europe/Zurich", 1, "de", "CHF"},
	{"France", 80, "Europe/Paris", 1, "fr", "€"},
	{"Belgium", 15, "Europe/Brussels", 1, "fr", "€"},
	{"Netherlands", 25, "Europe/Amsterdam", 1, "en", "€"},
	{"Spain", 45, "Europe/Madrid", 1, "es", "€"},
	{"Mexico", 30, "America/Mexico_City", -6, "es", "$"},
	{"Argentina", 15, "America/Argentina/Buenos_Aires", -3, "es", "$"},
	{"Chile", 10, "America/Santiago", -4, "es", "$"},
	{"Japan", 50, "Asia/Tokyo", 9, "ja", "¥"},
	{"India", 60, "Asia/Kolkata", 5.5, "en", "₹"},
	{"Canada", 30, "America/Toronto", -5, "en", "$"},
	{"Australia", 30, "Australia/Sydney", 10, "en", "$"},
	{"Australia", 8, "Australia/Adelaide", 9.5, "en", "$"},
	{"Australia", 1, "Australia/Lord_Howe", 10.5, "en", "$"},
	{"Ireland", 12, "Europe/Dublin", 0, "en", "€"},
	{"Sweden", 12, "Europe/Stockholm", 1, "en", "€"},
	{"Poland", 12, "Europe/Warsaw", 1, "en", "€"},
	{"Egypt", 8, "Africa/Cairo", 2, "en", "$"},
	{"South Africa", 8, "Africa/Johannesburg", 2, "en", "$"},
	{"Singapore", 10, "Asia/Singapore", 8, "en", "$"},
	{"Nepal", 3, "Asia/Kathmandu", 5.75, "en", "$"},
	{"New Zealand", 5, "Pacific/Auckland", 12, "en", "$"},
	{"Samoa", 1, "Pacific/Apia", 13, "en", "$"},
}
