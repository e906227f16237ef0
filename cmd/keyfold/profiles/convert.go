package profiles

import (
	"keyfold/cmd/keyfold/app"
	"keyfold/internal/cli"
	"keyfold/sink/mongodb"
)

// convertCmd rewrites vectors.
type convertCmd struct{}

// Help is the long text.
func (c *convertCmd) Help() string {
	return `Workers write a profile in the form that their EMBEDDING_FORMAT names, with its next event. This writes all others:
before a program that knows one form only reads them, and before a downgrade to a keyfold that knows arrays only.
Nothing else of a profile changes, its version neither. Workers may run; set EMBEDDING_FORMAT for them first.`
}

func (c *convertCmd) Check(a *app.App) error { return a.CheckStore() }

// Run converts, and says how many profiles.
func (c *convertCmd) Run(a *app.App) error {
	return a.WithStore(func(store *mongodb.Store) error {
		if err := store.Check(a.Ctx); err != nil {
			return err
		}
		n, err := store.Convert(a.Ctx)
		if err != nil {
			return err
		}
		return a.Emit(struct {
			Profiles int64  `json:"profiles_converted"`
			Format   string `json:"format"`
		}{n, a.Servers.Format}, func(w *cli.Text) {
			w.Line("%s converted to %s", cli.Count(n, "profile"), a.Servers.Format)
		})
	})
}
