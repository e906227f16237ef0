package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"keyfold/engine"
	"keyfold/engine/cure"
	"keyfold/engine/profile"
	"keyfold/sink/sqlfile"
)

// Settings are what all profiles of a file have in common. They are written
// when the file is made and hold for good: profiles made with others cannot be
// compared with, or folded into, those that are there.
type Settings struct {
	Dimensions int // components of a profile's vector
	History    profile.History
	Model      string // what makes the vectors
	// ShortHalfLife is that of the profiles' second vectors; 0: they have none. A file
	// without gets it when it is opened with one.
	ShortHalfLife time.Duration
}

// What faults of the settings name.
const (
	dimensionsSetting cure.Name = "profile.Config.Dimensions"
	historySetting    cure.Name = "profile.Config.History"
	modelSetting      cure.Name = "profile.Config.Model"
	learnedSetting    cure.Name = "settings.Engine.Learned"
	shortSetting      cure.Name = "profile.Config.ShortHalfLife"
)

// Validate reports every fault at once.
func (s Settings) Validate() error {
	var faults []error
	if s.Dimensions < 1 || s.Dimensions > profile.MaxDimensions {
		faults = append(faults, fmt.Errorf("%s is %d: it must be between 1 and %d", dimensionsSetting,
			s.Dimensions, profile.MaxDimensions))
	}
	if s.History != profile.Mass && s.History != profile.UnitMass {
		faults = append(faults, fmt.Errorf("%s is %q: it must be %q or %q", historySetting,
			s.History, profile.Mass, profile.UnitMass))
	}
	return errors.Join(faults...)
}

// reasonSettings is the reason of an error of settings.
const reasonSettings = "store_settings"

// querier is what a file's writer and its reader have in common.
type querier interface {
	One(query string, into ...any) error
	Path() string
}

// storedSettings reads the settings of a file.
func storedSettings(q querier) (s Settings, err error) {
	var short int64
	err = q.One("SELECT dimension_count, history, embedding_model, short_half_life FROM settings",
		&s.Dimensions, &s.History, &s.Model, &short)
	s.ShortHalfLife = time.Duration(short) * time.Second
	if errors.Is(err, sql.ErrNoRows) {
		return s, engine.ConfigurationError(reasonSettings, fmt.Errorf(
			"%s has no settings: the daemon that made it was stopped at its first start; start it again", q.Path()))
	}
	return s, err
}

// adopt writes the settings into a file that has none, and compares them with
// those of one that has.
func (s Settings) adopt(tx *sqlfile.Tx) error {
	_, err := tx.Exec(`INSERT INTO settings (one, dimension_count, history, embedding_model, short_half_life)
		VALUES (1, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET short_half_life = excluded.short_half_life WHERE short_half_life = 0
			AND dimension_count = excluded.dimension_count AND history = excluded.history AND embedding_model = excluded.embedding_model`,
		s.Dimensions, string(s.History), s.Model, int64(s.ShortHalfLife/time.Second))
	if err != nil {
		return err
	}
	stored, err := storedSettings(tx)
	if err != nil {
		return err
	}
	return s.match(stored, tx.Path())
}

// match returns a configuration fault that names each setting which differs.
func (s Settings) match(stored Settings, path string) error {
	var differ, cures []string
	compare := func(setting cure.Name, configured, kept any) {
		if configured != kept {
			differ = append(differ, fmt.Sprintf("%s is %v, the file has %v", setting, configured, kept))
			cures = append(cures, fmt.Sprintf("%s=%v", setting, kept))
		}
	}
	compare(dimensionsSetting, s.Dimensions, stored.Dimensions)
	compare(historySetting, s.History, stored.History)
	compare(modelSetting, profile.TextModel(s.Model), profile.TextModel(stored.Model))
	compare(learnedSetting, fmt.Sprintf("%q", profile.LearnedIn(s.Model)), fmt.Sprintf("%q", profile.LearnedIn(stored.Model)))
	compare(shortSetting, s.ShortHalfLife, stored.ShortHalfLife)
	if len(differ) == 0 {
		return nil
	}
	return engine.ConfigurationError(reasonSettings, fmt.Errorf(
		"%s was made with other settings: %s: set %s, or use another data folder and rebuild the profiles there",
		path, strings.Join(differ, "; "), strings.Join(cures, " ")))
}
