"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const form = document.getElementById("filter");
  const words = document.getElementById("words");
  const area = document.getElementById("area");
  const toggles = [...form.querySelectorAll(".toggle")];
  const found = document.getElementById("found");
  const clauses = [...document.querySelectorAll("[data-kind=clause]")];
  const texts = new Map();
  const cases = [...document.querySelectorAll("[data-kind=case]")];
  const failures = [...document.querySelectorAll("[data-kind=failure]")];
  const clausesOf = data.cases.map(() => []);
  for (const [clause, members] of Object.entries(data.clauses)) {
    for (const at of members) clausesOf[at].push(clause);
  }
  // A case is found by all that is said about it, its failure included; a failure is shown when its case is.
  const failureOf = new Map(failures.map((one) => [one.id.replace("failure", "case"), one]));
  cases.forEach((row, at) => {
    const account = failureOf.get(row.id)?.textContent ?? "";
    texts.set(row, `${row.textContent} ${clausesOf[at].join(" ")} ${account}`.toLowerCase());
  });

  const wanted = () => ({
    terms: words.value.toLowerCase().split(/\s+/).filter(Boolean),
    area: area.value,
    verdicts: toggles.filter((one) => one.getAttribute("aria-pressed") === "true").map((one) => one.dataset.verdict),
  });
  const fits = (element, wish) =>
    (!wish.area || element.dataset.area === wish.area) &&
    (!wish.verdicts.length || wish.verdicts.includes(element.dataset.verdict)) &&
    wish.terms.every((term) => texts.get(element).includes(term));
  const count = (kind, shown, all) => {
    const place = document.querySelector(`[data-of=${kind}]`);
    if (place) place.textContent = shown === all ? all.toLocaleString("en") : `${shown.toLocaleString("en")} of ${all.toLocaleString("en")}`;
  };

  const apply = () => {
    const wish = wanted();
    const kept = cases.map((row) => fits(row, wish));
    cases.forEach((row, at) => {
      row.hidden = !kept[at];
      const failure = failureOf.get(row.id);
      if (failure) failure.hidden = !kept[at];
    });
    const bad = failures.filter((one) => !one.hidden);
    const open = clauses.filter((one) => {
      one.hidden = !data.clauses[one.dataset.clause].some((at) => kept[at]);
      return !one.hidden;
    });
    const shown = kept.filter(Boolean).length;
    count("case", shown, cases.length);
    count("failure", bad.length, failures.length);
    count("clause", open.length, clauses.length);
    found.textContent = shown === cases.length ? `Everything is shown: ${cases.length.toLocaleString("en")} cases.`
      : `${shown.toLocaleString("en")} of ${cases.length.toLocaleString("en")} cases fit, ${bad.length.toLocaleString("en")} of them did not pass.`;
  };
  const clear = () => { toggles.forEach((one) => one.setAttribute("aria-pressed", "false")); };

  let waiting = 0;
  words.addEventListener("input", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(apply); });
  area.addEventListener("change", apply);
  toggles.forEach((one) => one.addEventListener("click", () => {
    one.setAttribute("aria-pressed", String(one.getAttribute("aria-pressed") !== "true"));
    apply();
  }));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => { clear(); setTimeout(apply); });

  // The cases of a clause that passed come into the page when it is opened.
  const fill = (details) => {
    if (details.dataset.filled) return;
    details.dataset.filled = "yes";
    const list = details.querySelector("ul");
    for (const at of data.clauses[details.dataset.clause]) {
      const [anchor, name, verdict] = data.cases[at];
      if (verdict !== "PASS") continue;
      const item = document.createElement("li");
      const mark = document.createElement("span");
      mark.className = "verdict v-PASS";
      mark.textContent = "✓ PASS";
      const link = document.createElement("a");
      link.href = `#${anchor}`;
      link.textContent = name;
      item.append(mark, " ", link);
      list.append(item);
    }
  };
  clauses.forEach((one) => one.addEventListener("toggle", () => { if (one.open) fill(one); }));

  // A link opens what it leads to, even where a filter hides it.
  const arrive = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (target.hidden) form.reset();
    const details = target.matches("details") ? target : target.matches(".failure") ? target.querySelector("details") : null;
    if (details) details.open = true;
    else if (target.tabIndex < 0 && !target.hasAttribute("tabindex")) return;
    setTimeout(() => {
      target.scrollIntoView();
      (details ? details.querySelector("summary") : target).focus({ preventScroll: true });
    });
  };
  addEventListener("hashchange", arrive);
  document.querySelector(".filter").hidden = false;
  apply();
  arrive();
})();
