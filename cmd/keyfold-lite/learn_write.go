package main

import (
	"errors"
	"os"
	"path/filepath"

	"keyfold/engine/profile"
	"keyfold/service/profile/products"
	"keyfold/sink/sqlite"
	"keyfold/source/inbox"
)

// unfinished is the file that a new folder has until it is whole.
const unfinished = databaseName + ".learning"

// write writes the new folder's file beside its place, and renames it when it is whole.
func (c *learnCmd) write(a *app, from *sqlite.Reader, lesson *products.Lesson, events *storedEvents, done *learnt) error {
	path := filepath.Join(c.Into, unfinished)
	for _, tail := range []string{"", "-wal", "-shm"} { // of a run that was killed
		if err := os.Remove(path + tail); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	laws := a.config.Processor.Config
	to, err := sqlite.Open(path, sqlite.Settings{
		Dimensions: lesson.Dimensions(), History: laws.History, Model: lesson.Model(), ShortHalfLife: laws.ShortHalfLife,
	})
	if err != nil {
		return err
	}
	err = c.fill(a, from, to, lesson, events, done)
	if err = errors.Join(err, to.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return os.Rename(path, filepath.Join(c.Into, databaseName))
}

// fill writes the products, the tombstones, and the events as they arrived.
func (c *learnCmd) fill(a *app, from *sqlite.Reader, to *sqlite.File, lesson *products.Lesson, events *storedEvents, done *learnt) (err error) {
	catalogue := func(yield func(profile.Product, error) bool) {
		for _, stream := range from.ProductStreams(a.ctx) {
			for p, err := range stream {
				if !yield(p, err) {
					return
				}
			}
		}
	}
	texts := products.Texts(catalogue, embedderModel, a.config.TextDimensions(), a.config.Learned)
	if done.Written, err = lesson.Write(a.ctx, texts, to); err != nil {
		return err
	}
	for user, at := range events.erased {
		if err := to.Forget(a.ctx, user, at); err != nil {
			return err
		}
	}
	box, err := inbox.New(a.ctx, inbox.Ports{Writer: writer{to}, Reader: to, Profiles: to, Log: a.log},
		inbox.Config{RetryDelay: a.config.Retry.Delay, MaxRetries: a.config.Retry.Attempts})
	if err != nil {
		return err
	}
	// What is added here is delivered by the first start in the new folder.
	waiting := make([]inbox.Arrival, 0, arrivalsAtOnce)
	for arrival, err := range events.arrivals(a.ctx) {
		if err != nil {
			return err
		}
		if waiting = append(waiting, arrival); len(waiting) < arrivalsAtOnce {
			continue
		}
		if err := c.add(a, box, waiting, done); err != nil {
			return err
		}
		waiting = waiting[:0]
	}
	return c.add(a, box, waiting, done)
}

// arrivalsAtOnce is how many events share a transaction.
const arrivalsAtOnce = 1000

func (c *learnCmd) add(a *app, box *inbox.Inbox, arrivals []inbox.Arrival, done *learnt) error {
	receipts, _, err := box.Add(a.ctx, arrivals)
	for _, r := range receipts {
		if r == inbox.ReceiptNew {
			done.Copied++
		}
	}
	return err
}
