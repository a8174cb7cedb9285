// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
)

// call sends a request and waits for its answer.
func (c *Client) call(ctx context.Context, r message) (string, error) {
	select {
	case r.ID = <-c.free:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if err := r.send(ctx, c.conn); err != nil {
		c.free <- r.ID
		return "", err
	}
	answer, err := c.await(ctx, r.ID)
	switch {
	case err != nil && ctx.Err() != nil:
		go c.await(context.WithoutCancel(ctx), r.ID) // the ID is in use until the answer comes
		return "", err
	case err == nil && answer.Error != "":
		return "", answer.Error
	}
	return answer.Value, err
}

// await waits for the answer to a request, and frees its ID. One of the waiting calls receives the
// answers of all.
func (c *Client) await(ctx context.Context, id int) (answer message, err error) {
	select {
	case answer = <-c.answers[id]:
		c.free <- id
		return answer, nil
	case <-ctx.Done():
		return answer, ctx.Err()
	case c.receiving <- struct{}{}:
	}
	defer func() { <-c.receiving }()
	for {
		select {
		case answer = <-c.answers[id]:
			c.free <- id
			return answer, nil
		default:
		}
		a, err := receive(ctx, c.conn)
		if err != nil {
			return answer, err
		}
		if a.ID < 0 || a.ID >= window || len(c.answers[a.ID]) > 0 {
			return answer, errors.New("the server sent a wrong answer")
		}
		c.answers[a.ID] <- a
	}
}
