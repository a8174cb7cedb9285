// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
)

// closeDuringRemoval closes bound IDs when the kernel reports that their device is removed. cma_release_dev counts an ID as gone
// before it releases the ID's entry of the GID table. The removal continues and frees the table, and free_gid_work uses it.
func closeDuringRemoval() error {
	hosts, err := vmtest.Ends()
	if err != nil {
		return err
	}
	h := hosts[0]
	rounds := 0
	for end := time.Now().Add(45 * time.Second); time.Now().Before(end); rounds++ {
		const channels = 8 // whose IDs are closed at the same time
		var closing sync.WaitGroup
		results := make(chan error, channels)
		for range channels {
			ch, err := cm.NewEventChannel(nil)
			if err != nil {
				return err
			}
			id, err := ch.NewID(cm.IDConfig{})
			if err != nil {
				return err
			}
			if err := id.Bind(cm.AddrFrom(netip.AddrPortFrom(h.IPv4, 0))); err != nil {
				return err
			}
			closing.Go(func() { results <- closeWhenRemoved(ch, id) })
		}
		if err := h.Unplug(); err != nil {
			return err
		}
		closing.Wait()
		for range channels {
			if err := <-results; err != nil {
				return err
			}
		}
		if err := h.TryPlug(); err != nil {
			return err
		}
	}
	fmt.Println("removals:", rounds)
	return nil
}

// closeWhenRemoved waits for the event of the removal and closes the ID and its channel.
func closeWhenRemoved(ch *cm.EventChannel, id *cm.ID) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	ev, err := ch.Next(ctx)
	if err == nil {
		ev.Ack()
	}
	return errors.Join(err, id.Close(), ch.Close())
}
