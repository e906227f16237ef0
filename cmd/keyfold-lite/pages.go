package main

import (
	"context"

	"keyfold/engine/profile"
	"keyfold/internal/version"
	"keyfold/service/dashboard"
	"keyfold/service/profile/explanation"
	"keyfold/service/profile/recommend"
	"keyfold/source/inbox"
)

// pagesPath is what the paths of pages begin with, beside the API's.
const pagesPath = "/ui"

// recentUsers is how many users the page of users lists.
const recentUsers = 20

// newPages returns the overview and the pages of users, and of notifications where some were
// decided. They show what the commands print.
func newPages(n *runtime, recommender *recommend.Recommender, decided *dashboard.Notifications) (*dashboard.Dashboard, error) {
	people := &dashboard.Users{
		Program: n.command(), Window: n.config.Shard.Window, Longest: n.config.Shard.MaxDelay,
		Show: n.showUser, Recommend: recommender.ForUser, Recent: n.recentUsers,
		Explain: func(ctx context.Context, p *profile.Profile, o explanation.Options) (*explanation.View, error) {
			return explainProfile(ctx, n.app, n.file.Reader, p, o)
		},
	}
	return dashboard.New(dashboard.Config{Path: pagesPath, Version: version.Read().Version}, dashboard.Sources{Look: n.look, Users: people, Notifications: decided, Single: true}, n.log.With("component", "dashboard"))
}

func (n *runtime) showUser(ctx context.Context, user int32, near, last int) (shown dashboard.Shown, err error) {
	bounded := *n.app
	bounded.ctx = ctx
	if shown.View, err = profileView(ctx, &bounded, n.file.Reader, user, near, 0, last); err != nil || shown.View.Profile != nil {
		return shown, err
	}
	shown.None = noProfile(&bounded, n.file.Reader, user).Error()
	return shown, nil
}

func (n *runtime) recentUsers(ctx context.Context) (all []dashboard.RecentUser, err error) {
	arrived, err := inbox.Recent(ctx, n.file, recentUsers)
	for _, a := range arrived {
		all = append(all, dashboard.RecentUser{ID: a.UserID, At: a.ReceivedAt.Time()})
	}
	return all, err
}
