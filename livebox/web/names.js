// What places are called.

import { firstLine, timeOfDay } from "./format.js";

/** "Support / General", or the members of a direct-message channel. */
export function channelName(app, channelId) {
  const channel = app.store.channels.get(channelId);
  if (!channel) return "";
  if (channel.kind === "dm") return dmName(app, channel);
  const space = app.store.spaces.get(channel.space_id);
  return space ? `${space.name} / ${channel.name}` : channel.name;
}

/** Who a direct-message channel is with. */
export function dmName(app, channel) {
  if (!app.store.me) return "…"; // until it is known who is here
  const others = (channel.member_ids ?? []).filter((id) => id !== app.store.me?.id);
  return others.length > 0 ? others.map((id) => app.name(id)).join(", ") : "Notes to yourself";
}

/** The title of a thread: its own, that of the message it grew from, or its channel's for the main thread. */
export function threadTitle(app, thread) {
  if (thread.title) return thread.title;
  const channel = app.store.channels.get(thread.channel_id);
  if (thread.is_main) return channel?.kind === "dm" ? dmName(app, channel) : channel?.name ?? "Main thread";
  if (thread.parent_message_id) {
    const parent = app.store.messages.get(thread.parent_message_id);
    if (!parent) app.want(thread.parent_message_id);
    if (parent?.body) return firstLine(parent.body, 60);
  }
  return `Thread of ${timeOfDay(thread.created_at)}`;
}
